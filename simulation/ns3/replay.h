// SPDX-License-Identifier: GPL-2.0-only
// Tmix: both ends of every connection of a plan, as traffic/replay/connection.py replays them in the kernel.
//
// An op (need, wait, bytes): wait until `need` bytes in total have come from the peer, then `wait` from the later of
// the end of the previous op's writing and that instant (the first op: from the establishment), then write `bytes`,
// or send FIN if 0. What both ends did is left in the columns of traffic/replay/records.py.
#pragma once

#include "endpoint.h"
#include "orders.h"

#include <memory>

namespace testbed
{

using Column = std::vector<int64_t>;

constexpr int64_t NEVER = -1;
constexpr int64_t UNFINISHED = 1, FINISHED = 2;
constexpr uint32_t ETHERNET_MSS = 1460, TIMESTAMP_BYTES = 12;

/// Experiment time, in microseconds.
struct Clock
{
    static inline Time zero;

    static int64_t Us()
    {
        return (Simulator::Now() - zero).GetNanoSeconds() / 1000;
    }

    static Time Until(int64_t us)
    {
        return zero + MicroSeconds(us) - Simulator::Now();
    }
};

/// One end's program and what it did.
struct End
{
    Column first, need, wait, bytes;
    Column start, connected, ended, status, read;
    Column sent, delivered; ///< of its own ops; of the peer's
    Ptr<Node> node;
    Ipv4Address address;
    const HostSettings* host = nullptr;

    void Prepare(size_t connections, size_t peerOps)
    {
        start.assign(connections, NEVER);
        connected = ended = start;
        status.assign(connections, 0);
        read = status;
        sent.assign(bytes.size(), NEVER);
        delivered.assign(peerOps, NEVER);
    }

    void Write(const std::string& path) const
    {
        Output file(path);
        for (const Column* column : {&start, &connected, &ended, &status, &read, &sent, &delivered})
        {
            file.Write(*column);
        }
        file.Close();
    }
};

class Source;

/// One end of one connection.
class Peer : public SimpleRefCount<Peer>
{
  public:
    Peer(End& own, End& other, size_t index)
        : m_own(own),
          m_other(other),
          m_index(index),
          m_op(own.first[index]),
          m_lastOp(own.first[index + 1]),
          m_peerOp(other.first[index]),
          m_peerLast(other.first[index + 1])
    {
        for (int64_t op = m_peerOp; op < m_peerLast; op++)
        {
            m_expected += other.bytes[op];
        }
        m_mark = m_expected ? other.bytes[m_peerOp] : INT64_MAX;
        m_closes = m_op < m_lastOp && own.bytes[m_lastOp - 1] == 0;
        own.status[index] = UNFINISHED;
    }

    void Attach(Ptr<Endpoint> socket)
    {
        m_socket = socket;
        Ptr<Peer> self(this);
        socket->SetRecvCallback([self](Ptr<Socket>) { self->Receive(); });
        socket->SetSendCallback([self](Ptr<Socket>, uint32_t) { self->MoreRoom(); });
        socket->SetCloseCallbacks([self](Ptr<Socket>) { self->PeerClosed(); },
                                  [self](Ptr<Socket>) { self->Over(-ECONNRESET); });
    }

    void Connect(Ptr<Endpoint> socket, uint16_t port, Ipv4Address to, uint16_t toPort)
    {
        m_own.start[m_index] = Clock::Us();
        Attach(socket);
        Ptr<Peer> self(this);
        socket->SetConnectCallback(
            [self](Ptr<Socket>) {
                self->m_own.connected[self->m_index] = Clock::Us();
                self->Begin();
            },
            [self](Ptr<Socket>) { self->Over(-ETIMEDOUT); });
        const InetSocketAddress there(to, toPort);
        if (!socket->BindTo(InetSocketAddress(m_own.address, port), there))
        {
            return Over(-EADDRINUSE);
        }
        if (socket->Connect(there) != 0)
        {
            Over(-ENETUNREACH);
        }
    }

    void Begin()
    {
        m_state = State::Data;
        GoOn();
    }

    /// The replay ends before this connection does.
    void Cut()
    {
        if (m_socket)
        {
            m_own.read[m_index] = m_read;
            Detach();
        }
    }

  private:
    enum class State { Connecting, Data, Timer, Room, Close };

    void GoOn()
    {
        while (m_op < m_lastOp)
        {
            if (m_own.need[m_op] > m_read)
            {
                m_state = State::Data;
                return;
            }
            if (m_own.wait[m_op])
            {
                m_state = State::Timer;
                m_timer = Simulator::Schedule(MicroSeconds(m_own.wait[m_op]), &Peer::TimeIsUp, this);
                return;
            }
            if (!BeginOp())
            {
                return;
            }
        }
        m_state = State::Close;
        CloseIfDone();
    }

    void TimeIsUp()
    {
        if (BeginOp())
        {
            GoOn();
        }
    }

    bool BeginOp()
    {
        m_own.sent[m_op] = Clock::Us();
        m_left = m_own.bytes[m_op];
        if (m_left)
        {
            return WriteOn();
        }
        if (m_read == m_expected)
        {
            Over(FINISHED);
            return false;
        }
        m_socket->ShutdownSend();
        m_op++;
        return true;
    }

    bool WriteOn()
    {
        while (m_left)
        {
            const uint32_t size = std::min<int64_t>(m_left, m_socket->Room());
            if (size == 0)
            {
                m_state = State::Room;
                return false;
            }
            // the send callback may come from within
            m_state = State::Timer;
            const int sent = m_socket->Send(Create<Packet>(size), 0);
            if (sent <= 0)
            {
                Over(-EPIPE);
                return false;
            }
            m_left -= sent;
        }
        m_op++;
        return true;
    }

    void MoreRoom()
    {
        if (m_state == State::Room && m_socket && m_socket->Room() && WriteOn())
        {
            GoOn();
        }
    }

    void Receive()
    {
        if (!m_socket)
        {
            return;
        }
        Ptr<Packet> packet;
        bool came = false;
        // in CLOSE_WAIT ns-3 gives empty packets without end
        while (m_socket && (packet = m_socket->Recv(UINT32_MAX, 0)) && packet->GetSize())
        {
            m_read += packet->GetSize();
            came = true;
        }
        if (!came)
        {
            return;
        }
        while (m_read >= m_mark)
        {
            m_own.delivered[m_peerOp++] = Clock::Us();
            const int64_t more = m_peerOp < m_peerLast ? m_other.bytes[m_peerOp] : 0;
            m_mark = more ? m_mark + more : INT64_MAX;
        }
        if (m_state == State::Data)
        {
            GoOn();
        }
        else if (m_state == State::Close)
        {
            CloseIfDone();
        }
    }

    void PeerClosed()
    {
        if (!m_socket)
        {
            return;
        }
        Receive();
        if (!m_socket)
        {
            return;
        }
        if (m_read < m_expected)
        {
            return Over(-EPIPE);
        }
        m_closes = true;
        if (m_state == State::Close)
        {
            CloseIfDone();
        }
    }

    void CloseIfDone()
    {
        if (m_closes && m_read == m_expected)
        {
            Over(FINISHED);
        }
    }

    void Over(int64_t status)
    {
        if (!m_socket)
        {
            return;
        }
        m_own.status[m_index] = status;
        m_own.ended[m_index] = Clock::Us();
        m_own.read[m_index] = m_read;
        m_timer.Cancel();
        Ptr<Endpoint> socket = m_socket;
        // what it calls may be running: let go of it afterwards
        Simulator::ScheduleNow([self = Ptr<Peer>(this), socket] { Clear(socket); });
        m_socket = nullptr;
        socket->Close();
    }

    void Detach()
    {
        m_timer.Cancel();
        Ptr<Endpoint> socket = m_socket;
        m_socket = nullptr;
        Clear(socket);
    }

    static void Clear(Ptr<Endpoint> socket)
    {
        socket->SetRecvCallback(MakeNullCallback<void, Ptr<Socket>>());
        socket->SetSendCallback(MakeNullCallback<void, Ptr<Socket>, uint32_t>());
        socket->SetCloseCallbacks(MakeNullCallback<void, Ptr<Socket>>(), MakeNullCallback<void, Ptr<Socket>>());
        socket->SetConnectCallback(MakeNullCallback<void, Ptr<Socket>>(), MakeNullCallback<void, Ptr<Socket>>());
    }

    End& m_own;
    End& m_other;
    size_t m_index;
    int64_t m_op, m_lastOp, m_peerOp, m_peerLast;
    int64_t m_read = 0, m_expected = 0, m_mark = 0, m_left = 0;
    bool m_closes = false;
    State m_state = State::Connecting;
    EventId m_timer;
    Ptr<Endpoint> m_socket;
};

/// A source: a plan, its initiator and its acceptor.
class Source
{
  public:
    Source(const Order& order, Ptr<Node> initiator, const HostSettings& initiatorHost, Ptr<Node> acceptor,
           const HostSettings& acceptorHost, const SocketSettings& settings)
        : m_settings(settings),
          m_output(order.Text("output")),
          m_port(order.Int("port")),
          m_firstPort(order.Int("first_port")),
          m_ports(order.Int("ports"))
    {
        m_init.node = initiator;
        m_init.host = &initiatorHost;
        m_init.address = Ipv4Address(order.Text("initiator_address").c_str());
        m_acc.node = acceptor;
        m_acc.host = &acceptorHost;
        m_acc.address = Ipv4Address(order.Text("acceptor_address").c_str());
        ReadPlan(order);
        m_accepting.resize(m_start.size());
        m_connecting.resize(m_start.size());
    }

    void Begin()
    {
        m_listener = Endpoint::Make(m_acc.node, m_settings, *m_acc.host, ETHERNET_MSS - TIMESTAMP_BYTES);
        if (m_listener->Bind(InetSocketAddress(m_acc.address, m_port)) != 0 || m_listener->Listen() != 0)
        {
            Fail("a source cannot listen at port " + std::to_string(m_port));
        }
        m_listener->SetAcceptCallback(
            [this](Ptr<Socket>, const Address& from) {
                const size_t index = IndexOf(from);
                m_listener->AcceptWith(SegmentOf(m_mssAcc[index]));
                return true;
            },
            [this](Ptr<Socket> socket, const Address& from) {
                const size_t index = IndexOf(from);
                m_accepting[index] = Create<Peer>(m_acc, m_init, index);
                m_accepting[index]->Attach(DynamicCast<Endpoint>(socket));
                m_accepting[index]->Begin();
            });
        ScheduleNext();
    }

    void End()
    {
        m_next = m_start.size();
        for (auto* peers : {&m_connecting, &m_accepting})
        {
            for (auto& peer : *peers)
            {
                if (peer)
                {
                    peer->Cut();
                }
            }
        }
        m_init.Write(m_output + ".initiator.columns");
        m_acc.Write(m_output + ".acceptor.columns");
    }

  private:
    void ReadPlan(const Order& order)
    {
        std::ifstream file(order.Text("plan"), std::ios::binary);
        file.seekg(order.Int("offset"));
        const size_t n = order.Int("connections"), init = order.Int("init_ops"), acc = order.Int("acc_ops");
        const auto read = [&](Column& column, size_t rows) {
            column.resize(rows);
            file.read(reinterpret_cast<char*>(column.data()), 8 * rows);
        };
        Column unused;
        read(m_start, n);
        read(unused, n);
        read(m_mssInit, n);
        read(m_mssAcc, n);
        read(unused, n);
        read(m_init.first, n + 1);
        read(m_acc.first, n + 1);
        read(m_init.need, init);
        read(m_init.wait, init);
        read(m_init.bytes, init);
        read(m_acc.need, acc);
        read(m_acc.wait, acc);
        read(m_acc.bytes, acc);
        if (!file)
        {
            order.Wrong("the plan cannot be read");
        }
        m_init.Prepare(n, acc);
        m_acc.Prepare(n, init);
    }

    void ScheduleNext()
    {
        if (m_next < m_start.size())
        {
            Simulator::ScheduleWithContext(m_init.node->GetId(), std::max(Clock::Until(m_start[m_next]), Time(0)),
                                           &Source::Start, this);
        }
    }

    void Start()
    {
        if (m_next >= m_start.size())
        {
            return;
        }
        const size_t index = m_next++;
        m_connecting[index] = Create<Peer>(m_init, m_acc, index);
        m_connecting[index]->Connect(Endpoint::Make(m_init.node, m_settings, *m_init.host,
                                                    SegmentOf(m_mssInit[index])),
                                     m_firstPort + index % m_ports, m_acc.address, m_port);
        ScheduleNext();
    }

    /// Bytes of data in a full segment that a side sends: its size if it has one, without time stamps.
    static uint32_t SegmentOf(int64_t mss)
    {
        return std::min<int64_t>(mss ? mss : ETHERNET_MSS, ETHERNET_MSS) - TIMESTAMP_BYTES;
    }

    /// The connection that comes from a port: the latest with that port that was started.
    size_t IndexOf(const Address& from) const
    {
        const int64_t offset = InetSocketAddress::ConvertFrom(from).GetPort() - m_firstPort;
        const int64_t begun = m_next;
        if (offset < 0 || offset >= m_ports || offset >= begun)
        {
            Fail("a connection came from a port that nobody uses");
        }
        return begun - 1 - (begun - 1 - offset) % m_ports;
    }

    const SocketSettings& m_settings;
    std::string m_output;
    int64_t m_port, m_firstPort, m_ports;
    testbed::End m_init, m_acc;
    Column m_start, m_mssInit, m_mssAcc;
    std::vector<Ptr<Peer>> m_connecting, m_accepting;
    Ptr<Endpoint> m_listener;
    size_t m_next = 0;
};

} // namespace testbed
