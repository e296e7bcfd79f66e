// SPDX-License-Identifier: GPL-2.0-only
// One direction of an emulated link: rate, then delay and loss, with Ethernet's sizes. All of them may change.
//
// ns-3's own point-to-point device adds two bytes of PPP where Ethernet has 14, and holds a queue of its own. This
// one holds nothing but the packet that it is sending: whatever waits, waits in the queue disc, and is counted there.
#pragma once

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/traffic-control-module.h"

#include <map>
#include <string>

namespace testbed
{

using namespace ns3;

constexpr uint32_t ETHERNET_BYTES = 14, FRAME_BYTES = 1514;

/// What conservation is judged by. Each is counted where it happens.
struct WireCounters
{
    int64_t sent = 0;      ///< left the sending device
    int64_t arrived = 0;   ///< reached the wire behind it
    int64_t delivered = 0; ///< handed to the next node
    int64_t lost = 0;      ///< dropped on the wire, those chosen included
    int64_t chosen = 0;    ///< dropped because the scenario chose them
    int64_t waiting = 0;   ///< on the wire now
};

class WireDevice : public NetDevice
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("testbed::WireDevice").SetParent<NetDevice>();
        return tid;
    }

    void Configure(const std::string& name, uint64_t rateBps, Time delay, double lossShare)
    {
        m_name = name;
        m_rateBps = rateBps;
        m_delay = delay;
        m_lossShare = lossShare;
        m_random = CreateObject<UniformRandomVariable>();
    }

    void SetPeer(Ptr<WireDevice> peer)
    {
        m_peer = peer;
    }

    /// The frame that is being sent goes on at the old rate.
    void SetRate(uint64_t bps)
    {
        m_rateBps = bps;
    }

    /// What is on the wire keeps its time, and nothing overtakes it.
    void SetDelay(Time delay)
    {
        m_delay = delay;
    }

    void SetLoss(double share)
    {
        m_lossShare = share;
    }

    /// Down, nothing is taken out of the queue; the frame that is being sent goes on.
    void SetUp(bool up)
    {
        if (up == m_up)
        {
            return;
        }
        m_up = up;
        up ? WakeIfFree() : TxQueue()->Stop();
    }

    /// From now on packets leave the queue at opportunities only (Grant), or whenever the device is free again.
    void SetTraced(bool traced)
    {
        m_traced = traced;
        if (traced)
        {
            TxQueue()->Stop();
        }
        else
        {
            Simulator::Schedule(std::max(m_free - Simulator::Now(), Time(0)), &WireDevice::WakeIfFree, this);
        }
    }

    /// An opportunity of a trace: so many bytes of frames may leave the queue at this instant, as far as they are there.
    void Grant(int64_t bytes, Ptr<QueueDisc> queue)
    {
        while (Ptr<const QueueDiscItem> next = queue->Peek())
        {
            const int64_t size = next->GetSize() + ETHERNET_BYTES;
            const int64_t sent = m_counters.sent;
            if (size > bytes)
            {
                break;
            }
            TxQueue()->Start();
            queue->Run();
            if (m_counters.sent == sent)
            {
                break;
            }
            bytes -= size;
        }
        TxQueue()->Stop();
    }

    /// Lose the first `copies` full-sized TCP segments whose first byte is number `sequence` of the stream.
    void Lose(uint32_t sequence, int copies)
    {
        m_toLose[sequence] = copies;
    }

    const WireCounters& Counters() const
    {
        return m_counters;
    }

    bool Send(Ptr<Packet> packet, const Address&, uint16_t protocol) override
    {
        TxQueue()->Stop();
        m_counters.sent++;
        m_sending++;
        const uint64_t bits = 8 * (packet->GetSize() + ETHERNET_BYTES);
        const Time duration = NanoSeconds((bits * 1000000000 + m_rateBps / 2) / m_rateBps);
        // several of one opportunity follow each other
        m_free = std::max(m_free, Simulator::Now()) + duration;
        Simulator::Schedule(m_free - Simulator::Now(), &WireDevice::Sent, this, packet, protocol);
        return true;
    }

    bool SendFrom(Ptr<Packet> packet, const Address&, const Address& to, uint16_t protocol) override
    {
        return Send(packet, to, protocol);
    }

    // What a NetDevice has to say of itself.
    void SetIfIndex(const uint32_t index) override { m_index = index; }
    uint32_t GetIfIndex() const override { return m_index; }
    Ptr<Channel> GetChannel() const override { return nullptr; }
    void SetAddress(Address address) override { m_address = Mac48Address::ConvertFrom(address); }
    Address GetAddress() const override { return m_address; }
    bool SetMtu(const uint16_t mtu) override { return mtu == 1500; }
    uint16_t GetMtu() const override { return 1500; }
    bool IsLinkUp() const override { return true; }
    void AddLinkChangeCallback(Callback<void>) override {}
    bool IsBroadcast() const override { return false; }
    Address GetBroadcast() const override { return Mac48Address::GetBroadcast(); }
    bool IsMulticast() const override { return false; }
    Address GetMulticast(Ipv4Address) const override { return Mac48Address::GetBroadcast(); }
    Address GetMulticast(Ipv6Address) const override { return Mac48Address::GetBroadcast(); }
    bool IsBridge() const override { return false; }
    bool IsPointToPoint() const override { return true; }
    Ptr<Node> GetNode() const override { return m_node; }
    void SetNode(Ptr<Node> node) override { m_node = node; }
    bool NeedsArp() const override { return false; }
    void SetReceiveCallback(ReceiveCallback callback) override { m_receive = callback; }
    void SetPromiscReceiveCallback(PromiscReceiveCallback) override {}
    bool SupportsSendFrom() const override { return false; }

  private:
    /// The last bit has left: the next packet may go, this one is on the wire.
    void Sent(Ptr<Packet> packet, uint16_t protocol)
    {
        m_counters.arrived++;
        m_sending--;
        if (Chosen(packet))
        {
            m_counters.chosen++;
            m_counters.lost++;
        }
        else if (m_lossShare > 0 && m_random->GetValue() < m_lossShare)
        {
            m_counters.lost++;
        }
        else
        {
            m_counters.waiting++;
            m_lastArrival = std::max(m_lastArrival, Simulator::Now() + m_delay);
            Simulator::ScheduleWithContext(m_peer->m_node->GetId(), m_lastArrival - Simulator::Now(),
                                           &WireDevice::Arrived, this, packet, protocol);
        }
        WakeIfFree();
    }

    void WakeIfFree()
    {
        if (m_up && !m_traced && !m_sending)
        {
            TxQueue()->Wake();
        }
    }

    Ptr<NetDeviceQueue> TxQueue()
    {
        if (!m_queue)
        {
            m_queue = GetObject<NetDeviceQueueInterface>()->GetTxQueue(0);
        }
        return m_queue;
    }

    void Arrived(Ptr<Packet> packet, uint16_t protocol)
    {
        m_counters.waiting--;
        m_counters.delivered++;
        m_peer->m_receive(m_peer, packet, protocol, m_address);
    }

    bool Chosen(Ptr<Packet> packet)
    {
        if (m_toLose.empty() || packet->GetSize() != 1500)
        {
            return false;
        }
        Ipv4Header ip;
        TcpHeader tcp;
        Ptr<Packet> copy = packet->Copy();
        copy->RemoveHeader(ip);
        if (ip.GetProtocol() != 6)
        {
            return false;
        }
        copy->RemoveHeader(tcp);
        // ns-3 begins every connection with a SYN of number 0
        const auto found = m_toLose.find(tcp.GetSequenceNumber().GetValue() - 1);
        return found != m_toLose.end() && found->second-- > 0;
    }

    std::string m_name;
    uint64_t m_rateBps = 1;
    Time m_delay;
    double m_lossShare = 0;
    bool m_up = true, m_traced = false;
    int m_sending = 0;           ///< frames that have left the queue and are not on the wire yet
    Time m_free, m_lastArrival;  ///< when the last of them is; when the last one on the wire arrives
    std::map<uint32_t, int> m_toLose;
    WireCounters m_counters;
    Ptr<UniformRandomVariable> m_random;
    Ptr<WireDevice> m_peer;
    Ptr<NetDeviceQueue> m_queue;
    Ptr<Node> m_node;
    ReceiveCallback m_receive;
    Mac48Address m_address;
    uint32_t m_index = 0;
};

} // namespace testbed
