// SPDX-License-Identifier: GPL-2.0-only
//! A sender and a receiver of one QUIC stream with quinn; ../README.md has their command line.

use std::collections::HashMap;
use std::fs::File;
use std::io::BufWriter;
use std::net::{IpAddr, SocketAddr};
use std::process::exit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, Incoming, QlogConfig, ServerConfig, TransportConfig, VarInt};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, SignatureScheme};
use tokio::signal::unix::{signal, SignalKind};

type Problem = Box<dyn std::error::Error + Send + Sync>;

const STACK: &str = "quinn 0.11.12";
const ALPN: &[u8] = b"testbed";
/// Larger than any bandwidth-delay product, so that only congestion control limits the sender.
const WINDOW_BYTES: u32 = 64 << 20;
const CHUNK_BYTES: usize = 64 << 10;
const USAGE: &str = "receive --address A --port P --certificate FILE --key FILE | \
                     send --address A --port P --cca NAME (--bytes N | --seconds S) --qlog FILE";

/// The options of the command line, {"--name": value}.
struct Options(HashMap<String, String>);

impl Options {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_else(|| usage(&format!("{name} is missing")))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        let value = self.0.get(name)?;
        Some(value.parse().unwrap_or_else(|_| usage(&format!("{name} {value}: not a value of that kind"))))
    }

    fn peer(&self) -> SocketAddr {
        let (address, port) = (self.number::<IpAddr>("--address"), self.number("--port"));
        match (address, port) {
            (Some(address), Some(port)) => SocketAddr::new(address, port),
            _ => usage("--address and --port are missing"),
        }
    }
}

fn usage(problem: &str) -> ! {
    eprintln!("{problem}; usage: {USAGE}");
    exit(2)
}

fn main() {
    let mut words = std::env::args().skip(1);
    let role = words.next().unwrap_or_default();
    let mut options = HashMap::new();
    while let Some(name) = words.next() {
        match words.next() {
            Some(value) => options.insert(name, value),
            None => usage(&format!("{name}: no value")),
        };
    }
    let options = Options(options);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match role.as_str() {
        "receive" => runtime.map_err(Problem::from).and_then(|one| one.block_on(receive(&options))),
        "send" => runtime.map_err(Problem::from).and_then(|one| one.block_on(send(&options))),
        _ => usage(&format!("{role:?} is neither receive nor send")),
    };
    if let Err(problem) = done {
        let cause = problem.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        eprintln!("{problem}{cause}");
        exit(1)
    }
}

/// What both ends have in common: windows, and packets that leave one by one.
fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(WINDOW_BYTES))
        .receive_window(VarInt::from_u32(WINDOW_BYTES))
        .send_window(u64::from(WINDOW_BYTES))
        .enable_segmentation_offload(false);
    transport
}

async fn receive(options: &Options) -> Result<(), Problem> {
    let certificates: Vec<CertificateDer> =
        rustls_pemfile::certs(&mut std::fs::read(options.text("--certificate"))?.as_slice()).collect::<Result<_, _>>()?;
    let key: PrivateKeyDer = rustls_pemfile::private_key(&mut std::fs::read(options.text("--key"))?.as_slice())?
        .ok_or("--key: no private key in the file")?;
    let mut tls = rustls::ServerConfig::builder().with_no_client_auth().with_single_cert(certificates, key)?;
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport()));
    let endpoint = Endpoint::server(config, options.peer())?;
    let received = Arc::new(AtomicUsize::new(0));
    let mut end = signal(SignalKind::terminate())?;
    loop {
        tokio::select! {
            Some(incoming) = endpoint.accept() => { tokio::spawn(drain(incoming, received.clone())); }
            _ = end.recv() => break,
        }
    }
    println!("{{\"received_bytes\": {}}}", received.load(Ordering::Relaxed));
    Ok(())
}

/// Read all streams of a connection to their ends.
async fn drain(incoming: Incoming, received: Arc<AtomicUsize>) {
    let Ok(connection) = incoming.await else { return };
    while let Ok(mut stream) = connection.accept_uni().await {
        while let Ok(Some(chunk)) = stream.read_chunk(usize::MAX, true).await {
            received.fetch_add(chunk.bytes.len(), Ordering::Relaxed);
        }
    }
}

fn congestion_control(name: &str) -> Arc<dyn ControllerFactory + Send + Sync> {
    match name {
        "reno" => Arc::new(NewRenoConfig::default()),
        "cubic" => Arc::new(CubicConfig::default()),
        "bbr" => Arc::new(BbrConfig::default()),
        _ => usage(&format!("--cca {name}: one of reno, cubic, bbr expected")),
    }
}

async fn send(options: &Options) -> Result<(), Problem> {
    let began = Instant::now();
    let cca = options.text("--cca");
    let (bytes, seconds) = (options.number::<u64>("--bytes"), options.number::<f64>("--seconds"));
    if bytes.is_some() == seconds.is_some() {
        usage("one of --bytes and --seconds expected");
    }
    let until = seconds.map(|one| began + Duration::from_secs_f64(one));

    let mut transport = transport();
    let mut qlog = QlogConfig::default();
    qlog.writer(Box::new(BufWriter::new(File::create(options.text("--qlog"))?))).start_time(began);
    transport.congestion_controller_factory(congestion_control(cca)).qlog_stream(qlog.into_stream());
    let mut tls = rustls::ClientConfig::builder()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    tls.alpn_protocols = vec![ALPN.to_vec()];
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport));

    let peer = options.peer();
    let any: IpAddr = if peer.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
    let endpoint = Endpoint::client(SocketAddr::new(any, 0))?;
    let connection = endpoint.connect_with(config, peer, "server")?.await?;
    let mut stream = connection.open_uni().await?;
    let chunk = vec![b'x'; CHUNK_BYTES];
    let mut sent = 0u64;
    loop {
        let wanted = bytes.map_or(CHUNK_BYTES as u64, |all| (all - sent).min(CHUNK_BYTES as u64)) as usize;
        if wanted == 0 {
            break;
        }
        match until {
            None => sent += stream.write(&chunk[..wanted]).await? as u64,
            Some(end) => match tokio::time::timeout_at(end.into(), stream.write(&chunk[..wanted])).await {
                Ok(written) => sent += written? as u64,
                Err(_) => break,
            },
        }
    }
    if bytes.is_some() {
        stream.finish()?;
        stream.stopped().await?;            // all of it is acknowledged
    }
    connection.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    println!("{{\"sent_bytes\": {sent}, \"stack\": \"{STACK}\", \"cca\": \"{cca}\"}}");
    Ok(())
}

/// The receiver's certificate signs itself.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self, _: &CertificateDer<'_>, _: &[CertificateDer<'_>], _: &ServerName<'_>, _: &[u8], _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self, _: &[u8], _: &CertificateDer<'_>, _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self, _: &[u8], _: &CertificateDer<'_>, _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::ED25519, SignatureScheme::RSA_PSS_SHA256]
    }
}
