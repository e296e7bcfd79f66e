// SPDX-License-Identifier: GPL-2.0-only
// Links that change during a run, as testbed/guest/link_changes.py and traced_links.py have them in a kernel.
#pragma once

#include "network.h"
#include "replay.h"

namespace testbed
{

/// What a link has done, counted from the beginning of traffic.
class LinkCounts
{
  public:
    explicit LinkCounts(const LinkEnd& link)
        : m_link(&link),
          m_bytes(link.SentBytes()),
          m_packets(link.SentPackets()),
          m_wire(link.device->Counters())
    {
    }

    int64_t SentBytes() const
    {
        return m_link->SentBytes() - m_bytes;
    }

    int64_t SentPackets() const
    {
        return m_link->SentPackets() - m_packets;
    }

    int64_t Arrived() const
    {
        return m_link->device->Counters().arrived - m_wire.arrived;
    }

    int64_t Lost() const
    {
        return m_link->device->Counters().lost - m_wire.lost;
    }

  private:
    const LinkEnd* m_link;
    int64_t m_bytes, m_packets;
    WireCounters m_wire;
};

/// Orders `change`: all that is so of a link from an instant on. Each leaves a row when it has taken effect.
class LinkChanges
{
  public:
    LinkChanges(Network& network, const std::vector<Order>& orders, const std::string& path)
        : m_file(path)
    {
        m_file.Print("t_us,due_us,link,rate_bps,delay_us,loss_percent,limit,up,sent_bytes,sent_packets,"
                     "arrived_packets,lost_packets\n");
        for (const Order& order : orders)
        {
            if (order.what == "change")
            {
                LinkEnd& link = network.Link(order.words.at(0));
                m_counts.emplace(link.index, LinkCounts(link));
                m_changed[link.index] = &link;
                Simulator::Schedule(Clock::Until(order.Int("at_us")), [this, &link, &order] { Apply(link, order); });
            }
        }
    }

    void Close()
    {
        m_file.Close();
        for (const auto& [index, link] : m_changed)
        {
            link->device->SetUp(true);
        }
    }

  private:
    void Apply(LinkEnd& link, const Order& order)
    {
        link.device->SetRate(order.Int("rate_bps"));
        link.device->SetDelay(MicroSeconds(order.Int("delay_us")));
        link.device->SetLoss(order.Number("loss_percent") / 100);
        if (order.Int("limit_changes"))
        {
            Ptr<DropTail> queue = DynamicCast<DropTail>(link.queue);
            if (!queue)
            {
                order.Wrong("a queue whose limit does not change");
            }
            queue->SetLimit(order.Int("limit"));
        }
        const LinkCounts& counts = m_counts.at(link.index);
        m_file.Print("%ld,%s,%s,%s,%s,%s,%s,%s,%ld,%ld,%ld,%ld\n", long(Clock::Us()), order.Text("at_us").c_str(),
                     link.name.c_str(), order.Text("rate_bps").c_str(), order.Text("delay_us").c_str(),
                     order.Text("loss_percent").c_str(), order.Text("limit").c_str(), order.Text("up").c_str(),
                     long(counts.SentBytes()), long(counts.SentPackets()), long(counts.Arrived()),
                     long(counts.Lost()));
        // a link that comes back sends at once, which is after the change
        link.device->SetUp(order.Int("up"));
    }

    Output m_file;
    std::map<int, LinkCounts> m_counts;
    std::map<int, LinkEnd*> m_changed;
};

/// Orders `trace`: the instants at which full frames may leave a link's queue, from 0 on. Each leaves a row.
class TracedLinks
{
  public:
    TracedLinks(Network& network, const std::vector<Order>& orders, const std::string& path)
        : m_file(path)
    {
        m_file.Print("t_us,due_us,link,packets,sent_bytes,sent_packets,backlog_packets\n");
        for (const Order& order : orders)
        {
            if (order.what == "trace")
            {
                m_traces.emplace_back(network.Link(order.words.at(0)), ReadInt64s(order, "opportunities"));
            }
        }
        for (Trace& trace : m_traces)
        {
            Simulator::Schedule(Clock::Until(0), [&trace] { trace.link->device->SetTraced(true); });
            Next(trace);
        }
    }

    void Close()
    {
        m_file.Close();
        for (Trace& trace : m_traces)
        {
            trace.link->device->SetTraced(false);
        }
    }

  private:
    struct Trace
    {
        Trace(LinkEnd& of, std::vector<int64_t> pairs)
            : link(&of),
              times(std::move(pairs)),
              counts(of)
        {
        }

        LinkEnd* link;
        std::vector<int64_t> times; ///< pairs: when, how many frames
        LinkCounts counts;
        size_t next = 0;
    };

    void Next(Trace& trace)
    {
        if (trace.next + 1 < trace.times.size())
        {
            Simulator::Schedule(Clock::Until(trace.times[trace.next]), [this, &trace] { Grant(trace); });
        }
    }

    void Grant(Trace& trace)
    {
        const int64_t dueUs = trace.times[trace.next], frames = trace.times[trace.next + 1];
        trace.link->device->Grant(frames * FRAME_BYTES, trace.link->queue);
        m_file.Print("%ld,%ld,%s,%ld,%ld,%ld,%ld\n", long(Clock::Us()), long(dueUs), trace.link->name.c_str(),
                     long(frames), long(trace.counts.SentBytes()), long(trace.counts.SentPackets()),
                     long(trace.link->BacklogPackets()));
        trace.next += 2;
        Next(trace);
    }

    Output m_file;
    std::list<Trace> m_traces;
};

} // namespace testbed
