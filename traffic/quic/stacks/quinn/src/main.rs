// SPDX-License-Identifier: GPL-2.0-only
//! A sender and a receiver of one QUIC stream with quinn; ../README.md has their command line.

#[path = "../../any_certificate.rs"]
mod any_certificate;
#[path = "../../command_line.rs"]
mod command_line;

use any_certificate::AnyCertificate;
use command_line::{any_address, usage, Options, Problem};

use std::fs::File;
use std::future::Future;
use std::io::BufWriter;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Instant;

use quinn::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, Incoming, QlogConfig, ServerConfig, TransportConfig, VarInt};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::signal::unix::{signal, SignalKind};

const STACK: &str = "quinn 0.11.12";
const ALPN: &[u8] = b"testbed";
/// Larger than any bandwidth-delay product, so that only congestion control limits the sender.
const WINDOW_BYTES: u32 = 64 << 20;
const CHUNK_BYTES: usize = 64 << 10;

fn main() {
    command_line::run(|options| block_on(receive(options)), |options| block_on(send(options)))
}

fn block_on(work: impl Future<Output = Result<(), Problem>>) -> Result<(), Problem> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
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
    let endpoint = Endpoint::server(config, options.address())?;
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
    let (bytes, until) = options.amount(began);

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

    let peer = options.address();
    let endpoint = Endpoint::client(any_address(peer))?;
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
