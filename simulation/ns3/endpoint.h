// SPDX-License-Identifier: GPL-2.0-only
// A TCP socket of ns-3 that can be told apart, sampled, and given some of Linux's habits.
#pragma once

#include "wire.h"

#include <functional>
#include <set>

namespace testbed
{

/// How sockets of one congestion control are set up; what differs from ns-3's own defaults is in ccas.py.
struct SocketSettings
{
    std::string name;                            ///< as the kernel calls it
    TypeId congestionControl;
    std::map<std::string, std::string> algorithm; ///< its attributes
    int quickAcks = 0;                           ///< segments that are acknowledged one by one at first
    int64_t minRtoUs = 200000;
    bool varianceFloor = true;                   ///< RTO = sRTT + max(minimum, 4 rttvar), as in Linux
    int64_t delayedAckUs = 40000;
    std::string recovery = "ns3::TcpPrrRecovery";
};

/// What a node's kernel settings come to here.
struct HostSettings
{
    bool sack = true;
    int ecn = 0;
    int initialWindow = 10;
    bool restartAfterIdle = true;
    uint32_t receiveBuffer = 6291456;
    uint32_t sendBuffer = 4194304;
};

class Endpoint : public TcpSocketBase
{
  public:
    /// All of them that are connected or were, in the order in which they began.
    static std::map<uint64_t, Endpoint*>& All()
    {
        static std::map<uint64_t, Endpoint*> all;
        return all;
    }

    /// Called with each segment that an endpoint receives, before it is processed.
    static inline std::function<void(const Endpoint&, uint32_t dataBytes)> onReceive;
    /// Called with each segment that is sent again.
    static inline std::function<void(const Endpoint&)> onRetransmit;

    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("testbed::Endpoint").SetParent<TcpSocketBase>();
        return tid;
    }

    Endpoint()
    {
        Register();
    }

    Endpoint(const Endpoint& other)
        : TcpSocketBase(other),
          settings(other.settings),
          m_restartAfterIdle(other.m_restartAfterIdle)
    {
        Register();
    }

    ~Endpoint() override
    {
        All().erase(m_id);
    }

    static Ptr<Endpoint> Make(Ptr<Node> node, const SocketSettings& settings, const HostSettings& host, uint32_t mss)
    {
        Ptr<Endpoint> socket = CreateObject<Endpoint>();
        Ptr<TcpL4Protocol> tcp = node->GetObject<TcpL4Protocol>();
        socket->settings = &settings;
        socket->m_restartAfterIdle = host.restartAfterIdle;
        socket->SetNode(node);
        socket->SetTcp(tcp);
        socket->SetRtt(CreateObject<RttMeanDeviation>());
        ObjectFactory factory;
        factory.SetTypeId(settings.congestionControl);
        for (const auto& [name, value] : settings.algorithm)
        {
            factory.Set(name, StringValue(value));
        }
        socket->SetAttribute("SegmentSize", UintegerValue(mss));
        socket->SetAttribute("InitialCwnd", UintegerValue(host.initialWindow));
        socket->SetAttribute("MinRto", TimeValue(MicroSeconds(settings.minRtoUs)));
        // ns-3: RTO = max(sRTT + max(granularity, 4 rttvar), MinRto)
        socket->SetAttribute("ClockGranularity",
                             TimeValue(settings.varianceFloor ? MicroSeconds(settings.minRtoUs) : MilliSeconds(1)));
        socket->SetAttribute("DelAckCount", UintegerValue(2));
        socket->SetAttribute("DelAckTimeout", TimeValue(MicroSeconds(settings.delayedAckUs)));
        socket->SetAttribute("SndBufSize", UintegerValue(host.sendBuffer));
        socket->SetAttribute("RcvBufSize", UintegerValue(host.receiveBuffer));
        socket->SetAttribute("ConnTimeout", TimeValue(Seconds(1)));
        socket->SetAttribute("DataRetries", UintegerValue(15));
        socket->SetAttribute("MaxSegLifetime", DoubleValue(1));
        // as in Linux an application's last piece does not wait
        socket->SetAttribute("TcpNoDelay", BooleanValue(true));
        socket->SetAttribute("Sack", BooleanValue(host.sack));
        const TcpSocketState::UseEcn_t ecn[] = {TcpSocketState::Off, TcpSocketState::On, TcpSocketState::AcceptOnly};
        socket->SetUseEcn(ecn[host.ecn]);
        socket->SetCongestionControlAlgorithm(factory.Create<TcpCongestionOps>());
        ObjectFactory recovery;
        recovery.SetTypeId(settings.recovery);
        socket->SetRecoveryAlgorithm(recovery.Create<TcpRecoveryOps>());
        tcp->AddSocket(socket);
        return socket;
    }

    /// Bind to a port that other connections of this host may have, too, to other peers. False if this pair is in use.
    bool BindTo(const InetSocketAddress& here, const InetSocketAddress& there)
    {
        m_endPoint = m_tcp->Allocate(nullptr, here.GetIpv4(), here.GetPort(), there.GetIpv4(), there.GetPort());
        return m_endPoint && SetupCallback() == 0;
    }

    int Send(Ptr<Packet> packet, uint32_t flags) override
    {
        RestartAfterIdle();
        return TcpSocketBase::Send(packet, flags);
    }

    /// The segment size of the next connection that this listener accepts.
    void AcceptWith(uint32_t mss)
    {
        m_nextMss = mss;
    }

    /// Bytes that may be written now: about twice the window, to which Linux sizes the send buffer.
    uint32_t Room() const
    {
        const uint32_t segment = m_tcb->m_segmentSize;
        const uint32_t window = std::max<uint32_t>(m_tcb->m_cWnd, 10 * segment);
        const uint32_t most = std::min<uint64_t>(2 * uint64_t(window) + 16 * segment, GetSndBufSize());
        const uint32_t held = m_txBuffer->Size();
        return std::min(GetTxAvailable(), held < most ? most - held : 0);
    }

    /// Bytes that were written and have never been sent.
    uint32_t Unsent() const
    {
        return m_txBuffer->SizeFromSequence(std::max(m_tcb->m_highTxMark.Get(), m_txBuffer->HeadSequence()));
    }

    bool Connected() const
    {
        return m_state >= ESTABLISHED && m_state != TIME_WAIT;
    }

    bool Listening() const
    {
        return m_state == LISTEN;
    }

    // -- what is sampled ---------------------------------------------------------------------------
    struct State
    {
        Ipv4Address source, peer;
        uint16_t sport = 0, dport = 0;
        const char* state = "";
        int caState = 0;
        uint32_t cwnd = 0, ssthresh = 0, mss = 0, unacked = 0, retrans = 0, sendWindow = 0, receiveWindow = 0;
        int64_t srttUs = 0, rttvarUs = 0, minRttUs = -1, rtoUs = 0;
        uint64_t totalRetrans = 0, bytesAcked = 0, bytesReceived = 0, bytesSent = 0, bytesRetrans = 0, delivered = 0;
        uint64_t deliveryRateBps = 0;
        uint32_t sndNxt = 0, sndUna = 0;
    };

    State Look() const
    {
        static const char* const names[] = {"CLOSE", "LISTEN", "SYN-SENT", "SYN-RECV", "ESTAB", "CLOSE-WAIT",
                                            "LAST-ACK", "FIN-WAIT-1", "FIN-WAIT-2", "CLOSING", "TIME-WAIT"};
        State s;
        Address here, there;
        if (m_endPoint)
        {
            s.source = m_endPoint->GetLocalAddress();
            s.sport = m_endPoint->GetLocalPort();
            s.peer = m_endPoint->GetPeerAddress();
            s.dport = m_endPoint->GetPeerPort();
        }
        s.state = names[m_state];
        s.caState = m_tcb->m_congState;
        s.mss = m_tcb->m_segmentSize;
        s.cwnd = m_tcb->GetCwndInSegments();
        s.ssthresh = m_tcb->m_ssThresh == 0xffffffff ? 0x7fffffff : m_tcb->GetSsThreshInSegments();
        s.unacked = (BytesInFlight() + s.mss - 1) / s.mss;
        s.retrans = m_txBuffer->GetRetransmitsCount();
        s.srttUs = m_rtt->GetNSamples() ? m_rtt->GetEstimate().GetMicroSeconds() : 0;
        s.rttvarUs = m_rtt->GetNSamples() ? m_rtt->GetVariation().GetMicroSeconds() : 0;
        s.minRttUs = m_tcb->m_minRtt == Time::Max() ? -1 : m_tcb->m_minRtt.GetMicroSeconds();
        s.rtoUs = m_rto.Get().GetMicroSeconds();
        s.totalRetrans = m_retransmissions;
        s.bytesSent = m_bytesSent;
        s.bytesRetrans = m_bytesRetransmitted;
        s.bytesReceived = m_bytesReceived;
        // sequence numbers have 32 bits, these counters 64
        s.sndUna = m_txBuffer->HeadSequence().GetValue();
        s.sndNxt = m_tcb->m_nextTxSequence.Get().GetValue();
        m_acked += static_cast<uint32_t>(s.sndUna - m_lastUna);
        m_lastUna = s.sndUna;
        s.bytesAcked = m_acked ? m_acked - 1 : 0;
        const auto& rate = m_rateOps->GetConnectionRate();
        s.delivered = rate.m_delivered / s.mss;
        s.deliveryRateBps = rate.m_rateInterval.IsStrictlyPositive()
                                ? static_cast<uint64_t>(8 * rate.m_rateDelivered / rate.m_rateInterval.GetSeconds())
                                : 0;
        s.sendWindow = m_rWnd;
        s.receiveWindow = m_tcb->m_rxBuffer->MaxBufferSize() - m_tcb->m_rxBuffer->Size();
        return s;
    }

    Ptr<Node> Where() const
    {
        return m_node;
    }

    const SocketSettings* settings = nullptr;

  protected:
    Ptr<TcpSocketBase> Fork() override
    {
        Ptr<Endpoint> child = CopyObject<Endpoint>(this);
        if (m_nextMss)
        {
            child->m_tcb->m_segmentSize = m_nextMss;
            child->m_txBuffer->SetSegmentSize(m_nextMss);
            child->m_tcb->m_cWnd = child->m_tcb->m_initialCWnd * m_nextMss;
        }
        return child;
    }

    void DoForwardUp(Ptr<Packet> packet, const Address& from, const Address& to) override
    {
        TcpHeader header;
        packet->PeekHeader(header);
        const uint32_t data = packet->GetSize() - header.GetSerializedSize();
        if (onReceive && m_state >= ESTABLISHED)
        {
            onReceive(*this, data);
        }
        // ns-3 ignores an answer to a SYN that comes again: an acceptor that missed its acknowledgement, and has to speak
        // first, would wait for ever
        const uint8_t both = TcpHeader::SYN | TcpHeader::ACK;
        if (m_state >= ESTABLISHED && (header.GetFlags() & both) == both)
        {
            SendEmptyPacket(TcpHeader::ACK);
        }
        // Linux acknowledges the first segments of a connection one by one
        m_delAckMaxCount = data && m_quickAcked < settings->quickAcks ? 1 : 2;
        m_quickAcked += data > 0;
        m_bytesReceived += data;
        TcpSocketBase::DoForwardUp(packet, from, to);
    }

    uint32_t SendDataPacket(SequenceNumber32 sequence, uint32_t size, bool withAck) override
    {
        const bool again = sequence < m_tcb->m_highTxMark;
        const uint32_t sent = TcpSocketBase::SendDataPacket(sequence, size, withAck);
        m_bytesSent += sent;
        m_lastSent = Simulator::Now();
        if (again && sent)
        {
            m_retransmissions++;
            m_bytesRetransmitted += sent;
            if (onRetransmit)
            {
                onRetransmit(*this);
            }
        }
        return sent;
    }

  private:
    /// As Linux does (tcp_cwnd_restart): the window halves for each timeout that passed with nothing to send.
    void RestartAfterIdle()
    {
        if (!m_restartAfterIdle || m_txBuffer->Size() || m_state < ESTABLISHED || m_congestionControl->HasCongControl())
        {
            return;
        }
        const uint32_t least = std::min<uint32_t>(m_tcb->m_initialCWnd * m_tcb->m_segmentSize, m_tcb->m_cWnd);
        uint32_t window = m_tcb->m_cWnd;
        const Time rto = m_rto;
        Time idle = Simulator::Now() - m_lastSent;
        if (idle <= rto)
        {
            return;
        }
        m_tcb->m_ssThresh = std::max<uint32_t>(m_tcb->m_ssThresh, window / 4 * 3);
        for (idle -= rto; idle.IsStrictlyPositive() && window > least; idle -= rto)
        {
            window /= 2;
        }
        m_tcb->m_cWnd = std::max(window, least);
        m_tcb->m_cWndInfl = m_tcb->m_cWnd;
    }

    void Register()
    {
        static uint64_t last = 0;
        m_id = ++last;
        All()[m_id] = this;
    }

    uint64_t m_id = 0;
    bool m_restartAfterIdle = true;
    Time m_lastSent;
    uint32_t m_nextMss = 0;
    int m_quickAcked = 0;
    uint64_t m_retransmissions = 0, m_bytesSent = 0, m_bytesRetransmitted = 0, m_bytesReceived = 0;
    mutable uint64_t m_acked = 0;
    mutable uint32_t m_lastUna = 0;
};

} // namespace testbed
