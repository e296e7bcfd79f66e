// SPDX-License-Identifier: GPL-2.0-only
//! The command line of the Rust programs in this folder; README.md describes it.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::process::exit;
use std::time::{Duration, Instant};

pub type Problem = Box<dyn std::error::Error + Send + Sync>;

const USAGE: &str = "receive --address A --port P --certificate FILE --key FILE | \
                     send --address A --port P --cca NAME (--bytes N | --seconds S) --qlog FILE";

/// The options, {"--name": value}.
pub struct Options(HashMap<String, String>);

impl Options {
    pub fn text(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_else(|| usage(&format!("{name} is missing")))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        let value = self.0.get(name)?;
        Some(value.parse().unwrap_or_else(|_| usage(&format!("{name} {value}: not a value of that kind"))))
    }

    pub fn address(&self) -> SocketAddr {
        match (self.number::<IpAddr>("--address"), self.number("--port")) {
            (Some(address), Some(port)) => SocketAddr::new(address, port),
            _ => usage("--address and --port are missing"),
        }
    }

    /// How many bytes to send, or until when; one of the two.
    pub fn amount(&self, began: Instant) -> (Option<u64>, Option<Instant>) {
        match (self.number("--bytes"), self.number::<f64>("--seconds")) {
            (Some(bytes), None) => (Some(bytes), None),
            (None, Some(seconds)) => match Duration::try_from_secs_f64(seconds) {
                Ok(left) => (None, Some(began + left)),
                Err(problem) => usage(&format!("--seconds {seconds}: {problem}")),
            },
            _ => usage("one of --bytes and --seconds expected"),
        }
    }
}

/// Any address of this host, of the family of the peer's.
pub fn any_address(peer: SocketAddr) -> SocketAddr {
    let any: IpAddr = if peer.is_ipv4() { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
    SocketAddr::new(any, 0)
}

pub fn usage(problem: &str) -> ! {
    eprintln!("{problem}; usage: {USAGE}");
    exit(2)
}

/// Do what the command line says. Status 1, and a line, if that fails.
pub fn run(receive: fn(&Options) -> Result<(), Problem>, send: fn(&Options) -> Result<(), Problem>) {
    let mut words = std::env::args().skip(1);
    let role = words.next().unwrap_or_default();
    let mut options = HashMap::new();
    while let Some(name) = words.next() {
        match words.next() {
            Some(value) => options.insert(name, value),
            None => usage(&format!("{name}: no value")),
        };
    }
    let done = match role.as_str() {
        "receive" => receive(&Options(options)),
        "send" => send(&Options(options)),
        _ => usage(&format!("{role:?} is neither receive nor send")),
    };
    if let Err(problem) = done {
        let cause = problem.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        eprintln!("{problem}{cause}");
        exit(1)
    }
}
