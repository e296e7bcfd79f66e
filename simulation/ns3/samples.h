// SPDX-License-Identifier: GPL-2.0-only
// What is measured while traffic runs: the columns of testbed/core/raw_tables.py, with their names in the first line.
#pragma once

#include "network.h"
#include "replay.h"

namespace testbed
{

/// Calls something at 0, interval, 2 interval ... of experiment time.
class Sampler
{
  public:
    Sampler(int64_t intervalUs, int64_t untilUs, std::function<void(int64_t)> take)
        : m_interval(intervalUs),
          m_until(untilUs),
          m_take(std::move(take))
    {
        Next(0);
    }

  private:
    void Next(int64_t us)
    {
        if (us <= m_until)
        {
            Simulator::Schedule(Clock::Until(us), [this, us] {
                m_take(us);
                Next(us + m_interval);
            });
        }
    }

    int64_t m_interval, m_until;
    std::function<void(int64_t)> m_take;
};

/// Readings of queues, counted from the beginning of traffic.
class QueueSamples
{
  public:
    QueueSamples(Network& network, bool bottlenecks, int64_t intervalUs, int64_t untilUs, const std::string& path)
        : m_file(path)
    {
        for (LinkEnd& link : network.links)
        {
            if (link.bottleneck == bottlenecks)
            {
                m_links.push_back({&link, link.SentBytes(), link.SentPackets(), link.Dropped()});
            }
        }
        m_file.Print("t_us,link,sent_bytes,sent_packets,drops,backlog_bytes,backlog_packets\n");
        m_sampler = std::make_unique<Sampler>(intervalUs, untilUs, [this](int64_t us) { Take(us); });
    }

    void Close()
    {
        m_file.Close();
    }

  private:
    struct Start
    {
        LinkEnd* link;
        int64_t bytes, packets, drops;
    };

    void Take(int64_t us)
    {
        for (const Start& start : m_links)
        {
            const LinkEnd& link = *start.link;
            m_file.Print("%ld,%s,%ld,%ld,%ld,%ld,%ld\n", long(us), link.name.c_str(),
                         long(link.SentBytes() - start.bytes), long(link.SentPackets() - start.packets),
                         long(link.Dropped() - start.drops), long(link.BacklogBytes()), long(link.BacklogPackets()));
        }
    }

    Output m_file;
    std::vector<Start> m_links;
    std::unique_ptr<Sampler> m_sampler;
};

/// Time of every packet in the queues of bottlenecks: (when it left, how long it waited, link), all in ns. Those that an
/// AQM takes out to drop them have not left.
class SojournTimes
{
  public:
    SojournTimes(Network& network, const std::string& path)
        : m_file(path)
    {
        for (LinkEnd& link : network.links)
        {
            if (link.bottleneck)
            {
                const int64_t index = link.index;
                link.queue->TraceConnectWithoutContext(
                    "SojournTime", Callback<void, Time>([this, index](Time waited) {
                        if (m_rows.size() > 100000)
                        {
                            Flush();
                        }
                        m_rows.insert(m_rows.end(), {(Simulator::Now() - Clock::zero).GetNanoSeconds(),
                                                     waited.GetNanoSeconds(), index});
                    }));
                link.queue->TraceConnectWithoutContext(
                    "DropAfterDequeue",
                    Callback<void, Ptr<const QueueDiscItem>, const char*>(
                        [this, index](Ptr<const QueueDiscItem>, const char*) {
                            // at once, before anything else leaves a queue
                            NS_ABORT_UNLESS(!m_rows.empty() && m_rows.back() == index);
                            m_rows.resize(m_rows.size() - 3);
                        }));
            }
        }
    }

    void Close()
    {
        Flush();
        m_file.Close();
    }

  private:
    void Flush()
    {
        m_file.Write(m_rows);
        m_rows.clear();
    }

    Output m_file;
    std::vector<int64_t> m_rows;
};

inline std::string
Text(Ipv4Address address)
{
    std::ostringstream text;
    text << address;
    return text.str();
}

/// State of every connected socket.
class SocketSamples
{
  public:
    SocketSamples(const std::map<uint32_t, std::string>& names, int64_t intervalUs, int64_t untilUs,
                  const std::string& path)
        : m_names(names),
          m_file(path)
    {
        m_file.Print("t_us,node,src,sport,dst,dport,state,cca,ca_state,cwnd,ssthresh,srtt_us,rttvar_us,min_rtt_us,"
                     "rto_us,mss,unacked,retrans,total_retrans,bytes_acked,bytes_received,bytes_sent,bytes_retrans,"
                     "delivered,delivery_rate_bps\n");
        m_sampler = std::make_unique<Sampler>(intervalUs, untilUs, [this](int64_t us) { Take(us); });
    }

    void Close()
    {
        m_file.Close();
    }

  private:
    void Take(int64_t us)
    {
        for (const auto& [id, socket] : Endpoint::All())
        {
            if (!socket->Connected())
            {
                continue;
            }
            const Endpoint::State s = socket->Look();
            m_file.Print("%ld,%s,%s,%u,%s,%u,%s,%s,%d,%u,%u,%ld,%ld,", long(us),
                         m_names.at(socket->Where()->GetId()).c_str(), Text(s.source).c_str(), s.sport,
                         Text(s.peer).c_str(), s.dport, s.state, socket->settings->name.c_str(), s.caState, s.cwnd,
                         s.ssthresh, long(s.srttUs), long(s.rttvarUs));
            if (s.minRttUs >= 0)
            {
                m_file.Print("%ld", long(s.minRttUs));
            }
            m_file.Print(",%ld,%u,%u,%u,%lu,%lu,%lu,%lu,%lu,%lu,%lu\n", long(s.rtoUs), s.mss, s.unacked, s.retrans,
                         s.totalRetrans, s.bytesAcked, s.bytesReceived, s.bytesSent, s.bytesRetrans, s.delivered,
                         s.deliveryRateBps);
        }
    }

    const std::map<uint32_t, std::string>& m_names;
    Output m_file;
    std::unique_ptr<Sampler> m_sampler;
};

/// A row for each segment that a connected socket receives, and for each that is sent again.
class SegmentTrace
{
  public:
    SegmentTrace(int64_t untilUs, const std::string& path, const std::string& againPath)
        : m_received(path),
          m_again(againPath)
    {
        m_received.Print("t_us,src,dst,mark,data_len,snd_nxt,snd_una,snd_cwnd,ssthresh,snd_wnd,srtt_us,rcv_wnd\n");
        m_again.Print("t_us,src,dst\n");
        Endpoint::onReceive = [this, untilUs](const Endpoint& socket, uint32_t data) {
            const int64_t us = Clock::Us();
            if (us < 0 || us >= untilUs)
            {
                return;
            }
            const Endpoint::State s = socket.Look();
            m_received.Print("%ld,%s:%u,%s:%u,0,%u,%u,%u,%u,%u,%u,%ld,%u\n", long(us), Text(s.source).c_str(),
                             s.sport, Text(s.peer).c_str(), s.dport, data, s.sndNxt, s.sndUna, s.cwnd, s.ssthresh,
                             s.sendWindow, long(s.srttUs), s.receiveWindow);
        };
        Endpoint::onRetransmit = [this, untilUs](const Endpoint& socket) {
            const int64_t us = Clock::Us();
            if (us >= 0 && us < untilUs)
            {
                const Endpoint::State s = socket.Look();
                m_again.Print("%ld,%s:%u,%s:%u\n", long(us), Text(s.source).c_str(), s.sport, Text(s.peer).c_str(),
                              s.dport);
            }
        };
    }

    void Close()
    {
        Endpoint::onReceive = nullptr;
        Endpoint::onRetransmit = nullptr;
        m_received.Close();
        m_again.Close();
    }

  private:
    Output m_received, m_again;
};

} // namespace testbed
