// SPDX-License-Identifier: GPL-2.0-only
// The queues of a scenario (topologies/queues.py) as queue discs of ns-3.
#pragma once

#include "orders.h"
#include "wire.h"

namespace testbed
{

/// Drop tail in packets or in bytes. ns-3's own does not count Ethernet headers, the kernel's does.
class DropTail : public QueueDisc
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("testbed::DropTail").SetParent<QueueDisc>();
        return tid;
    }

    DropTail(int64_t limit, bool inBytes)
        : QueueDisc(QueueDiscSizePolicy::MULTIPLE_QUEUES, inBytes ? QueueSizeUnit::BYTES : QueueSizeUnit::PACKETS),
          m_limit(limit),
          m_inBytes(inBytes)
    {
    }

    /// What is over a smaller limit stays; nothing is taken until there is room.
    void SetLimit(int64_t limit)
    {
        m_limit = limit;
    }

  private:
    Ptr<const QueueDiscItem> DoPeek() override
    {
        return GetInternalQueue(0)->Peek();
    }

    bool DoEnqueue(Ptr<QueueDiscItem> item) override
    {
        const int64_t size = item->GetSize() + ETHERNET_BYTES;
        if (m_inBytes ? m_bytes + size > m_limit : GetNPackets() >= m_limit)
        {
            DropBeforeEnqueue(item, "full");
            return false;
        }
        m_bytes += size;
        return GetInternalQueue(0)->Enqueue(item);
    }

    Ptr<QueueDiscItem> DoDequeue() override
    {
        Ptr<QueueDiscItem> item = GetInternalQueue(0)->Dequeue();
        if (item)
        {
            m_bytes -= item->GetSize() + ETHERNET_BYTES;
        }
        return item;
    }

    bool CheckConfig() override
    {
        if (GetNInternalQueues() == 0)
        {
            AddInternalQueue(CreateObjectWithAttributes<DropTailQueue<QueueDiscItem>>(
                "MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, 0xffffffff))));
        }
        return true;
    }

    void InitializeParams() override {}

    int64_t m_limit;
    bool m_inBytes;
    int64_t m_bytes = 0;
};

/// A link's queue. Sizes are those of IP packets in ns-3's own discs: 1500 of 1514 bytes.
inline Ptr<QueueDisc>
MakeQueue(const Order& link)
{
    const std::string& kind = link.Text("queue");
    const int64_t limit = link.Int("limit");
    if (kind == "pfifo" || kind == "bfifo")
    {
        Ptr<DropTail> queue = CompleteConstruct(new DropTail(limit, kind == "bfifo"));
        return queue;
    }
    const auto ip = [](int64_t bytes) { return bytes * 1500.0 / 1514; };
    ObjectFactory factory;
    if (kind == "red")
    {
        factory.SetTypeId("ns3::RedQueueDisc");
        factory.Set("MaxSize", QueueSizeValue(QueueSize(QueueSizeUnit::BYTES, ip(limit))));
        factory.Set("MinTh", DoubleValue(ip(link.Int("min"))));
        factory.Set("MaxTh", DoubleValue(ip(link.Int("max"))));
        factory.Set("MeanPktSize", UintegerValue(link.Int("avpkt")));
        factory.Set("LinkBandwidth", DataRateValue(DataRate(link.Int("bandwidth"))));
        factory.Set("LInterm", DoubleValue(1 / link.Number("probability")));
        factory.Set("QW", DoubleValue(link.Number("weight")));
        // as in Linux: above the upper threshold everything is dropped; marked only if asked for
        factory.Set("Gentle", BooleanValue(false));
        factory.Set("UseEcn", BooleanValue(link.Int("ecn", 0)));
        factory.Set("UseHardDrop", BooleanValue(link.Int("harddrop", 0) || !link.Int("ecn", 0)));
        factory.Set("ARED", BooleanValue(link.Int("adaptive", 0)));
        return factory.Create<QueueDisc>();
    }
    const auto packets = QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, limit));
    if (kind == "codel")
    {
        factory.SetTypeId("ns3::CoDelQueueDisc");
        factory.Set("MaxSize", packets);
        factory.Set("Target", TimeValue(MicroSeconds(link.Int("target", 5000))));
        factory.Set("Interval", TimeValue(MicroSeconds(link.Int("interval", 100000))));
        factory.Set("UseEcn", BooleanValue(link.Int("ecn", 0)));
    }
    else if (kind == "fq_codel")
    {
        factory.SetTypeId("ns3::FqCoDelQueueDisc");
        factory.Set("MaxSize", packets);
        factory.Set("Flows", UintegerValue(link.Int("flows", 1024)));
        factory.Set("Target", StringValue(std::to_string(link.Int("target", 5000)) + "us"));
        factory.Set("Interval", StringValue(std::to_string(link.Int("interval", 100000)) + "us"));
        factory.Set("UseEcn", BooleanValue(link.Int("ecn", 1)));
    }
    else if (kind == "pie")
    {
        factory.SetTypeId("ns3::PieQueueDisc");
        factory.Set("MaxSize", packets);
        factory.Set("QueueDelayReference", TimeValue(MicroSeconds(link.Int("target", 15000))));
        factory.Set("Tupdate", TimeValue(MicroSeconds(link.Int("tupdate", 15000))));
        // tc's scale: 2 and 20 sixteenths per second
        factory.Set("A", DoubleValue(link.Int("alpha", 2) / 16.0));
        factory.Set("B", DoubleValue(link.Int("beta", 20) / 16.0));
        factory.Set("UseEcn", BooleanValue(link.Int("ecn", 0)));
    }
    else
    {
        link.Wrong("no such queue");
    }
    Ptr<QueueDisc> queue = factory.Create<QueueDisc>();
    if (kind == "fq_codel" && link.Has("quantum"))
    {
        DynamicCast<FqCoDelQueueDisc>(queue)->SetQuantum(link.Int("quantum"));
    }
    return queue;
}

} // namespace testbed
