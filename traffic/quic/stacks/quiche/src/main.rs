// SPDX-License-Identifier: GPL-2.0-only
//! A sender and a receiver of one QUIC stream with quiche; ../README.md has their command line.

#[path = "../../command_line.rs"]
mod command_line;

use command_line::{any_address, usage, Options, Problem};

use std::fs::File;
use std::io::{BufWriter, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use quiche::{CongestionControlAlgorithm, Config, Connection, ConnectionId, QlogLevel, RecvInfo, SendInfo};
use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::rand::{getrandom, GetRandomFlags};

const STACK: &str = "quiche 0.30.0";
const ALPN: &[&[u8]] = &[b"testbed"];
/// Larger than any bandwidth-delay product, so that only congestion control limits the sender.
const WINDOW_BYTES: u64 = 64 << 20;
/// quiche has no default.
const IDLE_MS: u64 = 30_000;
/// The default of quiche's own programs; the library's is the least that QUIC allows.
const PACKET_BYTES: usize = 1350;
const DATAGRAM_BYTES: usize = 65535;
const STREAM: u64 = 2;

fn main() {
    command_line::run(receive, send)
}

/// What both ends have in common.
fn config() -> Result<Config, Problem> {
    let mut config = Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(ALPN)?;
    config.verify_peer(false);
    config.set_max_idle_timeout(IDLE_MS);
    config.set_max_recv_udp_payload_size(DATAGRAM_BYTES);
    config.set_max_send_udp_payload_size(PACKET_BYTES);
    config.set_initial_max_data(WINDOW_BYTES);
    config.set_initial_max_stream_data_uni(WINDOW_BYTES);
    config.set_initial_max_streams_uni(16);
    config.set_max_connection_window(WINDOW_BYTES);
    config.set_max_stream_window(WINDOW_BYTES);
    Ok(config)
}

/// A UDP socket, what was read from it last, and what becomes readable at SIGTERM.
struct Wire {
    socket: UdpSocket,
    end: UnixStream,
    buffer: Vec<u8>,
}

impl Wire {
    fn new(local: SocketAddr) -> Result<Self, Problem> {
        let socket = UdpSocket::bind(local)?;
        socket.set_nonblocking(true)?;
        let (end, signal) = UnixStream::pair()?;
        signal_hook::low_level::pipe::register(signal_hook::consts::SIGTERM, signal)?;
        Ok(Self { socket, end, buffer: vec![0; DATAGRAM_BYTES] })
    }

    /// Wait for datagrams, or until an instant: to the nanosecond, so that pacing is what quiche wants. Returns whether
    /// SIGTERM came.
    fn wait(&self, until: Option<Instant>) -> Result<bool, Problem> {
        let left = until.map(|one| one.saturating_duration_since(Instant::now()));
        let left = left.map(|one| Timespec { tv_sec: one.as_secs() as i64, tv_nsec: one.subsec_nanos().into() });
        let mut files = [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(&self.end, PollFlags::IN)];
        match poll(&mut files, left.as_ref()) {
            Err(problem) if problem != rustix::io::Errno::INTR => Err(problem.into()),
            _ => Ok(!files[1].revents().is_empty()),
        }
    }

    /// The next datagram's length and where it comes from; None if none is there.
    fn next(&mut self) -> Result<Option<(usize, SocketAddr)>, Problem> {
        loop {
            match self.socket.recv_from(&mut self.buffer) {
                Ok(found) => return Ok(Some(found)),
                Err(problem) if problem.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(problem) if problem.kind() == ErrorKind::ConnectionRefused => continue,
                Err(problem) => return Err(problem.into()),
            }
        }
    }

    fn send(&self, data: &[u8], to: SocketAddr) -> Result<(), Problem> {
        match self.socket.send_to(data, to) {
            // it is lost, as in any full queue
            Err(problem) if !matches!(problem.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => {
                Err(problem.into())
            }
            _ => Ok(()),
        }
    }
}

/// Packets of a connection that wait until the pacer lets them go.
#[derive(Default)]
struct Paced(Option<(Vec<u8>, SendInfo)>);

impl Paced {
    /// Send what is due. Returns when the next packet is due, if one waits.
    fn flush(&mut self, connection: &mut Connection, wire: &Wire) -> Result<Option<Instant>, Problem> {
        loop {
            let (packet, how) = match self.0.take() {
                Some(waiting) => waiting,
                None => {
                    let mut packet = vec![0; DATAGRAM_BYTES];
                    match connection.send(&mut packet) {
                        Ok((length, how)) => {
                            packet.truncate(length);
                            (packet, how)
                        }
                        Err(quiche::Error::Done) => return Ok(None),
                        Err(problem) => return Err(problem.into()),
                    }
                }
            };
            if how.at > Instant::now() {
                let at = how.at;
                self.0 = Some((packet, how));
                return Ok(Some(at));
            }
            wire.send(&packet, how.to)?;
        }
    }
}

fn new_id() -> Result<[u8; quiche::MAX_CONN_ID_LEN], Problem> {
    let mut id = [0; quiche::MAX_CONN_ID_LEN];
    getrandom(&mut id, GetRandomFlags::empty())?;
    Ok(id)
}

fn earliest(instants: impl IntoIterator<Item = Option<Instant>>) -> Option<Instant> {
    instants.into_iter().flatten().min()
}

/// Tell a connection that its timer has run out, if it has.
fn tick(connection: &mut Connection) {
    if connection.timeout_instant().is_some_and(|at| at <= Instant::now()) {
        connection.on_timeout();
    }
}

struct Incoming {
    connection: Connection,
    paced: Paced,
    due: Option<Instant>,
}

fn receive(options: &Options) -> Result<(), Problem> {
    let mut config = config()?;
    config.load_cert_chain_from_pem_file(options.text("--certificate"))?;
    config.load_priv_key_from_pem_file(options.text("--key"))?;
    let local = options.address();
    let mut wire = Wire::new(local)?;
    let mut all: Vec<Incoming> = Vec::new();
    let mut scratch = vec![0; DATAGRAM_BYTES];
    let mut received = 0;
    while !wire.wait(earliest(all.iter().flat_map(|one| [one.connection.timeout_instant(), one.due])))? {
        while let Some((length, from)) = wire.next()? {
            let data = &mut wire.buffer[..length];
            let Ok(header) = quiche::Header::from_slice(data, quiche::MAX_CONN_ID_LEN) else { continue };
            // before the client knows an identifier of ours, it is known by its address
            let known = all.iter().position(|one| {
                one.connection.source_ids().any(|id| *id == header.dcid)
                    || header.ty == quiche::Type::Initial && one.connection.path_stats().any(|path| path.peer_addr == from)
            });
            let index = match known {
                Some(index) => index,
                None if header.ty == quiche::Type::Initial && quiche::version_is_supported(header.version) => {
                    let id = new_id()?;
                    let connection = quiche::accept(&ConnectionId::from_ref(&id), None, local, from, &mut config)?;
                    all.push(Incoming { connection, paced: Paced::default(), due: None });
                    all.len() - 1
                }
                None => continue,
            };
            // what cannot be read is dropped, as QUIC wants
            let _ = all[index].connection.recv(data, RecvInfo { from, to: local });
        }
        for one in &mut all {
            tick(&mut one.connection);
            for stream in one.connection.readable() {
                while let Ok((length, _)) = one.connection.stream_recv(stream, &mut scratch) {
                    received += length;
                }
            }
            one.due = one.paced.flush(&mut one.connection, &wire)?;
        }
        all.retain(|one| !one.connection.is_closed());
    }
    println!("{{\"received_bytes\": {received}}}");
    Ok(())
}

fn congestion_control(name: &str) -> CongestionControlAlgorithm {
    match name {
        "reno" => CongestionControlAlgorithm::Reno,
        "cubic" => CongestionControlAlgorithm::CUBIC,
        "bbr" => CongestionControlAlgorithm::Bbr2Gcongestion,
        _ => usage(&format!("--cca {name}: one of reno, cubic, bbr expected")),
    }
}

fn send(options: &Options) -> Result<(), Problem> {
    let cca = options.text("--cca");
    let (bytes, until) = options.amount(Instant::now());

    let mut config = config()?;
    config.set_cc_algorithm(congestion_control(cca));
    let peer = options.address();
    let mut wire = Wire::new(any_address(peer))?;
    let local = wire.socket.local_addr()?;
    let id = new_id()?;
    let mut connection = quiche::connect(Some("server"), &ConnectionId::from_ref(&id), local, peer, &mut config)?;
    let qlog = BufWriter::new(File::create(options.text("--qlog"))?);
    connection.set_qlog_with_level(Box::new(qlog), "sender".into(), STACK.into(), QlogLevel::Extra);

    let chunk = vec![b'x'; DATAGRAM_BYTES];
    let (mut sent, mut finished, mut closing) = (0, false, false);
    let mut paced = Paced::default();
    loop {
        let due = paced.flush(&mut connection, &wire)?;
        if connection.is_closed() || closing && connection.is_draining() {
            break;
        }
        if wire.wait(earliest([connection.timeout_instant(), due, until.filter(|_| !closing)]))? {
            return Err("ended by SIGTERM".into());
        }
        while let Some((length, from)) = wire.next()? {
            let _ = connection.recv(&mut wire.buffer[..length], RecvInfo { from, to: local });
        }
        tick(&mut connection);
        if closing || connection.is_closed() || connection.is_draining() {
            continue;
        }
        let acknowledged = finished && connection.stream_capacity(STREAM).is_err();
        if acknowledged || until.is_some_and(|at| at <= Instant::now()) {
            connection.close(true, 0, b"")?;
            closing = true;
        }
        while !closing && !finished && connection.is_established() {
            let wanted = bytes.map_or(chunk.len() as u64, |all| (all - sent).min(chunk.len() as u64)) as usize;
            let last = bytes.is_some_and(|all| sent + wanted as u64 == all);
            match connection.stream_send(STREAM, &chunk[..wanted], last) {
                Ok(written) => {
                    sent += written as u64;
                    finished = last && written == wanted;
                }
                Err(quiche::Error::Done) => break,
                Err(problem) => return Err(problem.into()),
            }
        }
    }
    if !closing {
        return Err(format!("the connection ended: {:?}", connection.peer_error().or(connection.local_error())).into());
    }
    println!("{{\"sent_bytes\": {sent}, \"stack\": \"{STACK}\", \"cca\": \"{cca}\"}}");
    Ok(())
}
