// SPDX-License-Identifier: GPL-2.0-only
// Single flows: TCP that sends all it can (always, or now and then) or a number of bytes; UDP at given instants.
#pragma once

#include "replay.h"

namespace testbed
{

/// What a flow that rests now and then may have written ahead (traffic/greedy/flows.py).
constexpr uint32_t MOST_UNSENT_BYTES = 1 << 17;

/// One TCP connection from a sender to a receiver.
class BulkFlow
{
  public:
    BulkFlow(const Order& order, Ptr<Node> sender, const HostSettings& senderHost, Ptr<Node> receiver,
             const HostSettings& receiverHost, const SocketSettings& settings)
        : m_flow(order.Int("flow")),
          m_stopUs(order.Int("stop_us")),
          m_bytes(order.Int("bytes", 0)),
          m_sport(order.Int("sport", 0)),
          m_source(order.Text("src").c_str()),
          m_to(Ipv4Address(order.Text("dst").c_str()), order.Int("dport")),
          m_segment(order.Int("segment_bytes")),
          m_sender(sender),
          m_senderHost(senderHost),
          m_settings(settings)
    {
        HostSettings limited = receiverHost;
        if (order.Int("window"))
        {
            limited.receiveBuffer = order.Int("window") * m_segment;
        }
        if (order.Has("bursts"))
        {
            m_burstsUs = ReadInt64s(order, "bursts");
        }
        m_listener = Endpoint::Make(receiver, settings, limited, m_segment);
        if (m_listener->Bind(m_to) != 0 || m_listener->Listen() != 0)
        {
            order.Wrong("the receiver cannot listen");
        }
        m_listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                      [this](Ptr<Socket> socket, const Address&) {
                                          m_accepted = socket;
                                          socket->SetRecvCallback([this](Ptr<Socket> s) { Receive(s); });
                                          socket->SetCloseCallbacks([](Ptr<Socket> s) { s->Close(); },
                                                                    [](Ptr<Socket>) {});
                                      });
        Simulator::ScheduleWithContext(sender->GetId(), Clock::Until(order.Int("start_us")), &BulkFlow::Start, this);
    }

    void Report(Output& file) const
    {
        file.Print("{\"flow\": %ld, \"sent_bytes\": %ld, \"received_bytes\": %ld, \"delivered_us\": %ld}",
                   long(m_flow), long(m_sent), long(m_received), long(m_deliveredUs));
    }

  private:
    void Start()
    {
        m_socket = Endpoint::Make(m_sender, m_settings, m_senderHost, m_segment);
        m_socket->SetConnectCallback([this](Ptr<Socket>) { Fill(); }, [](Ptr<Socket>) {});
        m_socket->SetSendCallback([this](Ptr<Socket>, uint32_t) { Fill(); });
        if (m_socket->Bind(m_sport ? InetSocketAddress(m_source, m_sport) : InetSocketAddress(m_source, 0)) != 0 ||
            m_socket->Connect(m_to) != 0)
        {
            Fail("flow " + std::to_string(m_flow) + " cannot connect");
        }
        for (size_t i = 2; i < m_burstsUs.size(); i += 2)
        {
            Simulator::Schedule(Clock::Until(m_burstsUs[i]), &BulkFlow::Fill, this);
        }
        if (!m_burstsUs.empty())
        {
            Simulator::Schedule(Clock::Until(m_stopUs), &BulkFlow::Fill, this);
        }
    }

    /// What may be written now. A flow that rests now and then does not write far ahead: what is written goes out.
    uint32_t Room()
    {
        if (m_burstsUs.empty())
        {
            return m_socket->Room();
        }
        const int64_t now = Clock::Us();
        while (m_burst + 3 < m_burstsUs.size() && now >= m_burstsUs[m_burst + 2])
        {
            m_burst += 2;
        }
        const uint32_t unsent = m_socket->Unsent();
        const bool sends = now >= m_burstsUs[m_burst] && now < m_burstsUs[m_burst + 1];
        return sends && unsent < MOST_UNSENT_BYTES ? std::min(m_socket->Room(), MOST_UNSENT_BYTES - unsent) : 0;
    }

    void Fill()
    {
        if (m_over || m_filling || !m_socket->Connected())
        {
            return;
        }
        m_filling = true;
        if (Clock::Us() >= m_stopUs || (m_bytes && m_sent == m_bytes))
        {
            m_over = true;
            m_socket->Close();
        }
        while (!m_over)
        {
            uint32_t size = std::min<uint32_t>(Room(), 65160);
            if (m_bytes)
            {
                size = std::min<int64_t>(size, m_bytes - m_sent);
            }
            if (size == 0)
            {
                break;
            }
            const int sent = m_socket->Send(Create<Packet>(size), 0);
            if (sent <= 0)
            {
                break;
            }
            m_sent += sent;
        }
        m_filling = false;
    }

    void Receive(Ptr<Socket> socket)
    {
        Ptr<Packet> packet;
        while ((packet = socket->Recv()) && packet->GetSize())
        {
            m_received += packet->GetSize();
        }
        if (m_bytes && m_received == m_bytes && m_deliveredUs < 0)
        {
            m_deliveredUs = Clock::Us();
            socket->Close();
        }
    }

    int64_t m_flow, m_stopUs, m_bytes;
    uint16_t m_sport;
    Ipv4Address m_source;
    InetSocketAddress m_to;
    uint32_t m_segment;
    std::vector<int64_t> m_burstsUs; ///< pairs: from, to
    size_t m_burst = 0;
    Ptr<Node> m_sender;
    const HostSettings& m_senderHost;
    const SocketSettings& m_settings;
    Ptr<Endpoint> m_listener, m_socket;
    Ptr<Socket> m_accepted;
    int64_t m_sent = 0, m_received = 0, m_deliveredUs = -1;
    bool m_over = false, m_filling = false;
};

/// UDP: packet i leaves at start + i x gap, or at the i-th instant of a file, and begins with its number.
class DatagramFlow
{
  public:
    DatagramFlow(const Order& order, Ptr<Node> sender, Ptr<Node> receiver)
        : m_flow(order.Int("flow")),
          m_payload(order.Int("payload_bytes")),
          m_gapNs(order.Int("gap_ns", 0)),
          m_startNs(1000 * order.Int("start_us")),
          m_to(Ipv4Address(order.Text("dst").c_str()), order.Int("dport"))
    {
        m_source = Socket::CreateSocket(sender, UdpSocketFactory::GetTypeId());
        m_sink = Socket::CreateSocket(receiver, UdpSocketFactory::GetTypeId());
        if (m_sink->Bind(m_to) != 0 || m_source->Bind() != 0 || m_source->Connect(m_to) != 0)
        {
            order.Wrong("a socket cannot be bound");
        }
        m_sink->SetRecvCallback([this](Ptr<Socket>) { Receive(); });
        m_context = sender->GetId();
        if (m_gapNs)
        {
            m_most = (1000 * order.Int("stop_us") - m_startNs + m_gapNs - 1) / m_gapNs;
        }
        else
        {
            m_departuresNs = ReadInt64s(order, "departures");
            m_most = m_departuresNs.size();
        }
        Schedule();
    }

    void Report(Output& file) const
    {
        const long packet = m_payload + 28;
        file.Print("{\"flow\": %ld, \"sent_packets\": %ld, \"sent_bytes\": %ld, \"received_packets\": %ld, "
                   "\"received_bytes\": %ld, \"reordered_packets\": %ld, \"duplicate_packets\": 0, "
                   "\"socket_dropped_packets\": 0}",
                   long(m_flow), long(m_sent), long(m_sent) * packet, long(m_received), long(m_received) * packet,
                   long(m_reordered));
    }

  private:
    void Schedule()
    {
        if (m_sent < m_most)
        {
            const int64_t dueNs = m_gapNs ? m_startNs + m_sent * m_gapNs : m_departuresNs[m_sent];
            Simulator::ScheduleWithContext(m_context, Clock::zero + NanoSeconds(dueNs) - Simulator::Now(),
                                           &DatagramFlow::SendNext, this);
        }
    }

    void SendNext()
    {
        uint64_t number = m_sent++;
        std::vector<uint8_t> payload(m_payload);
        std::memcpy(payload.data(), &number, sizeof(number));
        m_source->Send(Create<Packet>(payload.data(), m_payload));
        Schedule();
    }

    void Receive()
    {
        while (Ptr<Packet> packet = m_sink->Recv())
        {
            uint64_t number = 0;
            packet->CopyData(reinterpret_cast<uint8_t*>(&number), sizeof(number));
            m_received++;
            m_reordered += number < m_next;
            m_next = std::max(m_next, number + 1);
        }
    }

    int64_t m_flow, m_payload, m_gapNs;
    int64_t m_startNs, m_most = 0;
    std::vector<int64_t> m_departuresNs;
    InetSocketAddress m_to;
    Ptr<Socket> m_source, m_sink;
    uint32_t m_context;
    int64_t m_sent = 0, m_received = 0, m_reordered = 0;
    uint64_t m_next = 0;
};

} // namespace testbed
