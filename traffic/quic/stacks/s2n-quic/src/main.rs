// SPDX-License-Identifier: GPL-2.0-only
//! A sender and a receiver of one QUIC stream with s2n-quic; ../README.md has their command line.
#![allow(deprecated)]           // s2n-quic's own builders have no client that accepts any certificate

#[path = "../../any_certificate.rs"]
mod any_certificate;
#[path = "../../command_line.rs"]
mod command_line;

use any_certificate::AnyCertificate;
use command_line::{any_address, usage, Options, Problem};

use std::fs::File;
use std::future::Future;
use std::io::{BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::exit;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use s2n_quic::client::Connect;
use s2n_quic::provider::congestion_controller::{Bbr, Cubic};
use s2n_quic::provider::event::events::{PacketLost, PacketReceived, PacketSent, RecoveryMetrics};
use s2n_quic::provider::event::{ConnectionInfo, ConnectionMeta, Subscriber};
use s2n_quic::provider::io::tokio::Provider as Io;
use s2n_quic::provider::limits::Limits;
use s2n_quic::provider::tls::rustls as tls;
use s2n_quic::{Client, Connection, Server};
use tokio::signal::unix::{signal, SignalKind};

const STACK: &str = "s2n-quic 1.91.0";
const ALPN: &str = "testbed";
/// Larger than any bandwidth-delay product, so that only congestion control limits the sender.
const WINDOW_BYTES: u32 = 64 << 20;
const CHUNK_BYTES: usize = 64 << 10;

fn main() {
    command_line::run(|options| block_on(receive(options)), |options| block_on(send(options)))
}

fn block_on(work: impl Future<Output = Result<(), Problem>>) -> Result<(), Problem> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

fn limits() -> Result<Limits, Problem> {
    let window = u64::from(WINDOW_BYTES);
    Ok(Limits::new()
        .with_data_window(window)?
        .with_unidirectional_data_window(window)?
        .with_max_send_buffer_size(WINDOW_BYTES)?)
}

fn io(local: SocketAddr) -> Result<Io, Problem> {
    Ok(Io::builder().with_receive_address(local)?.with_gso_disabled()?.build()?)
}

async fn receive(options: &Options) -> Result<(), Problem> {
    let tls = tls::Server::builder()
        .with_certificate(Path::new(options.text("--certificate")), Path::new(options.text("--key")))?
        .with_application_protocols([ALPN].into_iter())?
        .build()?;
    let mut server = Server::builder().with_tls(tls)?.with_io(io(options.address())?)?.with_limits(limits()?)?.start()?;
    let received = Arc::new(AtomicUsize::new(0));
    let mut end = signal(SignalKind::terminate())?;
    loop {
        tokio::select! {
            Some(connection) = server.accept() => { tokio::spawn(drain(connection, received.clone())); }
            _ = end.recv() => break,
        }
    }
    println!("{{\"received_bytes\": {}}}", received.load(Ordering::Relaxed));
    Ok(())
}

/// Read all streams of a connection to their ends.
async fn drain(mut connection: Connection, received: Arc<AtomicUsize>) {
    while let Ok(Some(mut stream)) = connection.accept_receive_stream().await {
        while let Ok(Some(chunk)) = stream.receive().await {
            received.fetch_add(chunk.len(), Ordering::Relaxed);
        }
    }
}

fn client(cca: &str, local: SocketAddr, qlog: Qlog) -> Result<Client, Problem> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    config.alpn_protocols = vec![ALPN.into()];
    let builder = Client::builder()
        .with_tls(tls::Client::new(config))?
        .with_io(io(local)?)?
        .with_limits(limits()?)?
        .with_event(qlog)?;
    Ok(match cca {
        "cubic" => builder.with_congestion_controller(Cubic::default())?.start()?,
        "bbr" => builder.with_congestion_controller(Bbr::default())?.start()?,
        _ => usage(&format!("--cca {cca}: one of cubic, bbr expected")),
    })
}

async fn send(options: &Options) -> Result<(), Problem> {
    let began = Instant::now();
    let cca = options.text("--cca");
    let (bytes, until) = options.amount(began);
    let peer = options.address();
    let qlog = Qlog::new(BufWriter::new(File::create(options.text("--qlog"))?))?;
    let mut client = client(cca, any_address(peer), qlog)?;
    let mut connection = client.connect(Connect::new(peer).with_server_name("server")).await?;
    let mut stream = connection.open_send_stream().await?;
    let chunk = Bytes::from(vec![b'x'; CHUNK_BYTES]);
    let mut sent = 0u64;
    loop {
        let wanted = bytes.map_or(CHUNK_BYTES as u64, |all| (all - sent).min(CHUNK_BYTES as u64)) as usize;
        if wanted == 0 {
            break;
        }
        match until {
            None => stream.send(chunk.slice(..wanted)).await?,
            Some(end) => match tokio::time::timeout_at(end.into(), stream.send(chunk.slice(..wanted))).await {
                Ok(written) => written?,
                Err(_) => break,
            },
        }
        sent += wanted as u64;
    }
    if bytes.is_some() {
        stream.close().await?;              // all of it is acknowledged
    }
    connection.close(0u32.into());
    client.wait_idle().await?;
    println!("{{\"sent_bytes\": {sent}, \"stack\": \"{STACK}\", \"cca\": \"{cca}\"}}");
    Ok(())
}

/// s2n-quic writes no qlog; this is made from its events.
struct Qlog(BufWriter<File>);

impl Qlog {
    fn new(mut file: BufWriter<File>) -> std::io::Result<Self> {
        writeln!(file, "{{\"qlog_format\":\"NDJSON\",\"qlog_version\":\"0.3\",\"title\":\"{STACK}\",\
                       \"trace\":{{\"vantage_point\":{{\"type\":\"client\"}}}}}}")?;
        Ok(Self(file))
    }

    fn write(&mut self, meta: &ConnectionMeta, name: &str, data: &str) {
        let time = meta.timestamp.duration_since_start().as_secs_f64() * 1e3;
        if let Err(problem) = writeln!(self.0, "{{\"time\":{time:.6},\"name\":\"{name}\",\"data\":{{{data}}}}}") {
            eprintln!("--qlog: {problem}");
            exit(1)
        }
    }
}

impl Drop for Qlog {
    fn drop(&mut self) {
        let _ = self.0.flush();
    }
}

impl Subscriber for Qlog {
    type ConnectionContext = ();

    fn create_connection_context(&mut self, _: &ConnectionMeta, _: &ConnectionInfo) {}

    fn on_recovery_metrics(&mut self, _: &mut (), meta: &ConnectionMeta, event: &RecoveryMetrics) {
        let [smoothed, latest, least] =
            [event.smoothed_rtt, event.latest_rtt, event.min_rtt].map(|one| one.as_secs_f64() * 1e3);
        self.write(meta, "recovery:metrics_updated", &format!(
            "\"congestion_window\":{},\"bytes_in_flight\":{},\"smoothed_rtt\":{smoothed},\"latest_rtt\":{latest},\
             \"min_rtt\":{least}", event.congestion_window, event.bytes_in_flight));
    }

    fn on_packet_sent(&mut self, _: &mut (), meta: &ConnectionMeta, event: &PacketSent) {
        self.write(meta, "transport:packet_sent", &format!("\"raw\":{{\"length\":{}}}", event.packet_len));
    }

    fn on_packet_received(&mut self, _: &mut (), meta: &ConnectionMeta, _: &PacketReceived) {
        self.write(meta, "transport:packet_received", "");
    }

    fn on_packet_lost(&mut self, _: &mut (), meta: &ConnectionMeta, event: &PacketLost) {
        self.write(meta, "recovery:packet_lost", &format!("\"raw\":{{\"length\":{}}}", event.bytes_lost));
    }
}
