// SPDX-License-Identifier: GPL-2.0-only
// The queues of a scenario (topologies/queues/__init__.py) as queue discs of ns-3.
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

  protected:
    int64_t Bytes() const
    {
        return m_bytes;
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

  private:
    Ptr<const QueueDiscItem> DoPeek() override
    {
        return GetInternalQueue(0)->Peek();
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

/// RED as Linux has it (include/net/red.h). ns-3's own cannot be set up like it: in bytes it drops small packets less often,
/// an empty queue lets its average fall, and ARED takes thresholds and weight of its own.
class Red : public DropTail
{
  public:
    explicit Red(const Order& link)
        : DropTail(link.Int("limit"), true),
          m_min(link.Int("min")),
          m_max(link.Int("max")),
          m_weight(link.Number("weight")),
          m_most(link.Number("probability")),
          m_ecn(link.Int("ecn", 0)),
          m_hard(!m_ecn || link.Int("harddrop", 0))
    {
        if (link.Int("adaptive", 0))
        {
            m_adapting = Simulator::Schedule(ADAPT_EVERY, &Red::Adapt, this);
        }
    }

  private:
    static constexpr double LEAST = 0.01, MOST = 0.5; ///< between which `adaptive` keeps the probability
    static inline const Time ADAPT_EVERY = MilliSeconds(500);

    /// Drops are 1 to 1/p packets apart, evenly (Floyd and Jacobson's method 2).
    bool DoEnqueue(Ptr<QueueDiscItem> item) override
    {
        m_average += m_weight * (Bytes() - m_average);
        const bool above = m_average >= m_max;
        if (above || m_average < m_min)
        {
            m_count = -1;
        }
        else if (++m_count == 0)
        {
            Draw();
        }
        const bool chosen = m_count > 0 && (m_average - m_min) * m_count >= m_drawn;
        if (chosen)
        {
            m_count = 0;
            Draw();
        }
        if ((above && (m_hard || !Mark(item, "marked"))) || (chosen && (!m_ecn || !Mark(item, "marked"))))
        {
            DropBeforeEnqueue(item, above ? "above" : "chosen");
            return false;
        }
        return DropTail::DoEnqueue(item);
    }

    void Draw()
    {
        m_drawn = m_uniform->GetValue() * (m_max - m_min) / m_most;
    }

    void Adapt()
    {
        const double place = (m_average - m_min) / (m_max - m_min);
        if (place > 0.6 && m_most <= MOST)
        {
            m_most += std::min(LEAST, m_most / 4);
        }
        else if (place < 0.4 && m_most >= LEAST)
        {
            m_most *= 0.9;
        }
        m_adapting = Simulator::Schedule(ADAPT_EVERY, &Red::Adapt, this);
    }

    void DoDispose() override
    {
        m_adapting.Cancel();
        DropTail::DoDispose();
    }

    double m_min, m_max, m_weight, m_most;
    bool m_ecn, m_hard;
    double m_average = 0, m_drawn = 0;
    int64_t m_count = -1; ///< packets since the last drop; -1: outside of the thresholds
    Ptr<UniformRandomVariable> m_uniform = CreateObject<UniformRandomVariable>();
    EventId m_adapting;
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
    if (kind == "red")
    {
        return CompleteConstruct(new Red(link));
    }
    ObjectFactory factory;
    const auto packets = QueueSizeValue(QueueSize(QueueSizeUnit::PACKETS, limit));
    if (kind == "codel")
    {
        factory.SetTypeId("ns3::CoDelQueueDisc");
        factory.Set("MaxSize", packets);
        factory.Set("Target", TimeValue(MicroSeconds(link.Int("target", 5000))));
        factory.Set("Interval", TimeValue(MicroSeconds(link.Int("interval", 100000))));
        // Linux drops while more than a full packet waits
        factory.Set("MinBytes", UintegerValue(1501));
        factory.Set("UseEcn", BooleanValue(link.Int("ecn", 0)));
    }
    else if (kind == "fq_codel")
    {
        factory.SetTypeId("ns3::FqCoDelQueueDisc");
        // of a flow: all but its last packet may be dropped (Linux: all but the last of all flows; ns-3 would crash)
        Config::SetDefault("ns3::CoDelQueueDisc::MinBytes", UintegerValue(1));
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
        // what Linux has by default, or always
        factory.Set("MaxBurstAllowance", TimeValue(MilliSeconds(150)));
        factory.Set("UseDerandomization", BooleanValue(true));
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
