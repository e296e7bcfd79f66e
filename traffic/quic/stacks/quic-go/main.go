// SPDX-License-Identifier: GPL-2.0-only

// A sender and a receiver of one QUIC stream with quic-go; ../README.md has their command line.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

const (
	stack = "quic-go 0.65.0"
	alpn  = "testbed"
	// larger than any bandwidth-delay product, so that only congestion control limits the sender
	windowBytes = 64 << 20
	chunkBytes  = 64 << 10
	usage       = "receive --address A --port P --certificate FILE --key FILE | " +
		"send --address A --port P --cca reno (--bytes N | --seconds S) --qlog FILE"
)

func main() {
	if len(os.Args) < 2 {
		refuse("neither receive nor send")
	}
	options := flag.NewFlagSet(os.Args[1], flag.ContinueOnError)
	options.SetOutput(io.Discard)
	address := options.String("address", "", "")
	port := options.Int("port", 0, "")
	certificate := options.String("certificate", "", "")
	key := options.String("key", "", "")
	cca := options.String("cca", "", "")
	bytes := options.Int64("bytes", -1, "")
	seconds := options.Float64("seconds", -1, "")
	qlogFile := options.String("qlog", "", "")
	if err := options.Parse(os.Args[2:]); err != nil {
		refuse(err.Error())
	}
	peer := net.JoinHostPort(*address, strconv.Itoa(*port))
	var err error
	switch os.Args[1] {
	case "receive":
		err = receive(peer, *certificate, *key)
	case "send":
		if *cca != "reno" {
			refuse(fmt.Sprintf("--cca %s: reno expected, quic-go has no other", *cca))
		}
		if (*bytes < 0) == (*seconds < 0) {
			refuse("one of --bytes and --seconds expected")
		}
		err = send(peer, *bytes, *seconds, *qlogFile)
	default:
		refuse(os.Args[1] + " is neither receive nor send")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func refuse(problem string) {
	fmt.Fprintf(os.Stderr, "%s; usage: %s\n", problem, usage)
	os.Exit(2)
}

// What both ends have in common.
func config() *quic.Config {
	return &quic.Config{
		InitialStreamReceiveWindow:     windowBytes,
		MaxStreamReceiveWindow:         windowBytes,
		InitialConnectionReceiveWindow: windowBytes,
		MaxConnectionReceiveWindow:     windowBytes,
	}
}

func receive(address, certificate, key string) error {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return err
	}
	listener, err := quic.ListenAddr(address,
		&tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{alpn}}, config())
	if err != nil {
		return err
	}
	until, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var received counter
	for {
		connection, err := listener.Accept(until)
		if until.Err() != nil {
			break
		}
		if err != nil {
			return err
		}
		go drain(connection, &received)
	}
	fmt.Printf("{\"received_bytes\": %d}\n", received.Load())
	return nil
}

// Read all streams of a connection to their ends.
func drain(connection *quic.Conn, received *counter) {
	for {
		stream, err := connection.AcceptUniStream(context.Background())
		if err != nil {
			return
		}
		_, _ = io.Copy(received, stream)
	}
}

// Counts what is written, and discards it.
type counter struct{ atomic.Int64 }

func (one *counter) Write(data []byte) (int, error) {
	one.Add(int64(len(data)))
	return len(data), nil
}

func send(address string, bytes int64, seconds float64, qlogFile string) error {
	began := time.Now()
	file, err := os.Create(qlogFile)
	if err != nil {
		return err
	}
	var written sync.WaitGroup
	var inFlight atomic.Int64
	own := config()
	own.Tracer = func(_ context.Context, isClient bool, id quic.ConnectionID) qlogwriter.Trace {
		trace := qlogwriter.NewConnectionFileSeq(&buffered{bufio.NewWriter(file), file}, isClient, id)
		written.Add(1)
		go func() { defer written.Done(); trace.Run() }()
		return &watched{trace, &inFlight}
	}
	connection, err := quic.DialAddr(context.Background(), address,
		&tls.Config{InsecureSkipVerify: true, ServerName: "server", NextProtos: []string{alpn}}, own)
	if err != nil {
		return err
	}
	stream, err := connection.OpenUniStreamSync(context.Background())
	if err != nil {
		return err
	}
	if seconds >= 0 {
		if err := stream.SetWriteDeadline(began.Add(time.Duration(seconds * 1e9))); err != nil {
			return err
		}
	}
	chunk := make([]byte, chunkBytes)
	sent := int64(0)
	for bytes < 0 || sent < bytes {
		wanted := int64(chunkBytes)
		if bytes >= 0 {
			wanted = min(wanted, bytes-sent)
		}
		count, err := stream.Write(chunk[:wanted])
		sent += int64(count)
		if seconds >= 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if err != nil {
			return err
		}
	}
	if bytes >= 0 {
		if err := stream.Close(); err != nil {
			return err
		}
		// what is not sent yet follows at once, or waits for what is in flight
		for time.Sleep(time.Millisecond); inFlight.Load() > 0; {
			time.Sleep(time.Millisecond)
		}
	}
	if err := connection.CloseWithError(0, ""); err != nil {
		return err
	}
	written.Wait()
	fmt.Printf("{\"sent_bytes\": %d, \"stack\": %q, \"cca\": \"reno\"}\n", sent, stack)
	return nil
}

// A trace that notes how many bytes are in flight.
type watched struct {
	qlogwriter.Trace
	inFlight *atomic.Int64
}

func (one *watched) AddProducer() qlogwriter.Recorder {
	return &watching{one.Trace.AddProducer(), one.inFlight}
}

type watching struct {
	qlogwriter.Recorder
	inFlight *atomic.Int64
}

func (one *watching) RecordEvent(event qlogwriter.Event) {
	if metrics, ok := event.(qlog.MetricsUpdated); ok {
		one.inFlight.Store(int64(metrics.BytesInFlight))
	}
	one.Recorder.RecordEvent(event)
}

// A file that is written in large pieces.
type buffered struct {
	*bufio.Writer
	file *os.File
}

func (one *buffered) Close() error {
	return errors.Join(one.Flush(), one.file.Close())
}
