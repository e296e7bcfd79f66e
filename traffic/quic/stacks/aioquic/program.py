# SPDX-License-Identifier: GPL-2.0-only
"""A sender and a receiver of one QUIC stream with aioquic; ../README.md has their command line."""
import argparse
import asyncio
import json
import signal
import ssl
import sys
import time
from typing import IO, Any, NoReturn

import aioquic
from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.quic import events
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.logger import QuicLogger, QuicLoggerTrace

ALPN = "testbed"
CCAS = ("reno", "cubic")
# larger than any bandwidth-delay product, so that only congestion control limits the sender
WINDOW_BYTES = 64 << 20
CHUNK = b"x" * (64 << 10)
# what waits in a stream, at least: aioquic itself accepts any amount at once
LEAST_BUFFERED_BYTES = 1 << 20


def configuration(**more: Any) -> QuicConfiguration:
    """What both ends have in common."""
    return QuicConfiguration(alpn_protocols=[ALPN], max_data=WINDOW_BYTES, max_stream_data=WINDOW_BYTES,
                             **more)


class Receiver(QuicConnectionProtocol):
    """Counts what comes on all connections."""
    received = 0

    def quic_event_received(self, event: events.QuicEvent) -> None:
        if isinstance(event, events.StreamDataReceived):
            Receiver.received += len(event.data)


class Sender(QuicConnectionProtocol):
    """Keeps a stream full until the wanted bytes are written, or until it is stopped."""

    def __init__(self, quic: QuicConnection, wanted: int | None) -> None:
        super().__init__(quic)
        self.wanted, self.sent = wanted, 0
        self.stream: Any = None
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def begin(self) -> None:
        """Open the stream."""
        stream = self._quic.get_next_available_stream_id(is_unidirectional=True)
        self._quic.send_stream_data(stream, b"")
        self.stream = self._quic._streams[stream]
        self.transmit()

    def transmit(self) -> None:
        if self.stream is not None and not self.done.done():
            self.fill()
        super().transmit()
        if self.stream is not None and self.stream.sender.is_finished and not self.done.done():
            self.done.set_result(None)

    def fill(self) -> None:
        """Write more than the congestion window has room for."""
        sender, stream = self.stream.sender, self.stream.stream_id
        if sender._buffer_fin is not None:
            return
        most = max(LEAST_BUFFERED_BYTES, 2 * self._quic._loss.congestion_window)
        while sender._buffer_stop - sender._buffer_start < most and self.sent != self.wanted:
            size = len(CHUNK) if self.wanted is None else min(len(CHUNK), self.wanted - self.sent)
            self._quic.send_stream_data(stream, CHUNK[:size])
            self.sent += size
        if self.sent == self.wanted:
            self._quic.send_stream_data(stream, b"", end_stream=True)

    def quic_event_received(self, event: events.QuicEvent) -> None:
        # without a stream, connect() says it
        if isinstance(event, events.ConnectionTerminated) and self.stream is not None and not self.done.done():
            self.done.set_exception(ConnectionError(f"the connection ended: {event.reason_phrase or event.error_code}"))


class Trace(QuicLoggerTrace):
    """Writes events as they come; aioquic's own keeps them all until the end."""

    def __init__(self, file: IO[str], **more: Any) -> None:
        super().__init__(**more)
        self.file = file
        self._write({"qlog_format": "NDJSON", "qlog_version": "0.3",
                     "trace": {"vantage_point": self._vantage_point}})

    def log_event(self, *, category: str, event: str, data: dict[str, Any]) -> None:
        # the name that the draft has for it
        if "cwnd" in data:
            data["congestion_window"] = data.pop("cwnd")
        self._write({"time": self.encode_time(time.time()), "name": f"{category}:{event}", "data": data})

    def _write(self, value: object) -> None:
        self.file.write(json.dumps(value, separators=(",", ":")) + "\n")


class Logger(QuicLogger):
    """Has the one trace."""

    def __init__(self, file: IO[str]) -> None:
        super().__init__()
        self.file = file

    def start_trace(self, is_client: bool, odcid: bytes) -> QuicLoggerTrace:
        trace = Trace(self.file, is_client=is_client, odcid=odcid)
        self._traces.append(trace)
        return trace


async def receive(options: argparse.Namespace) -> None:
    """Until SIGTERM."""
    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    server = configuration(is_client=False)
    server.load_cert_chain(options.certificate, options.key)
    await serve(options.address, options.port, configuration=server, create_protocol=Receiver)
    await end.wait()
    print(json.dumps({"received_bytes": Receiver.received}), flush=True)


async def send(options: argparse.Namespace, began: float) -> None:
    """One stream. Raises ConnectionError, OSError."""
    with open(options.qlog, "w", encoding="utf-8") as file:
        client = configuration(is_client=True, server_name="server", verify_mode=ssl.CERT_NONE,
                               congestion_control_algorithm=options.cca, quic_logger=Logger(file))
        # aioquic's connect() takes a socket of IPv6, which a host need not have
        any_address = "::" if ":" in options.address else "0.0.0.0"
        transport, sender = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: Sender(QuicConnection(configuration=client), options.bytes), local_addr=(any_address, 0))
        try:
            sender.connect((options.address, options.port))
            await sender.wait_connected()
            sender.begin()
            await _until_sent(sender, options, began)
            sender.close()
            await sender.wait_closed()
        finally:
            transport.close()
    print(json.dumps({"sent_bytes": sender.sent, "stack": f"aioquic {aioquic.__version__}", "cca": options.cca}))


async def _until_sent(sender: Sender, options: argparse.Namespace, began: float) -> None:
    """Until all is acknowledged, or the time is over."""
    if options.bytes is None:
        await asyncio.wait([sender.done], timeout=max(0, began + options.seconds - time.monotonic()))
        if not sender.done.done():
            sender.done.cancel()
            return
    await sender.done


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{message}\n")


def arguments() -> argparse.Namespace:
    """The command line. SystemExit with status 2 and what is wrong."""
    parser = Parser(allow_abbrev=False)
    roles = parser.add_subparsers(dest="role", required=True)
    receiver, sender = roles.add_parser("receive"), roles.add_parser("send")
    for role in (receiver, sender):
        role.add_argument("--address", required=True)
        role.add_argument("--port", type=int, required=True)
    receiver.add_argument("--certificate", required=True)
    receiver.add_argument("--key", required=True)
    sender.add_argument("--cca", choices=CCAS, required=True)
    amount = sender.add_mutually_exclusive_group(required=True)
    amount.add_argument("--bytes", type=int)
    amount.add_argument("--seconds", type=float)
    sender.add_argument("--qlog", required=True)
    return parser.parse_args()


def main() -> None:
    """What the command line says."""
    began = time.monotonic()
    options = arguments()
    try:
        asyncio.run(receive(options) if options.role == "receive" else send(options, began))
    except (OSError, ssl.SSLError, ValueError) as problem:
        print(str(problem) or "no connection: nobody answers, or it was refused", file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
