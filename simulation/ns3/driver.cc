// SPDX-License-Identifier: GPL-2.0-only
// One run in ns-3: `driver ORDERS` carries out what testbed/engines/ns3/driver_orders.py wrote, in the current folder.
//
// It says how far it is on standard output (`t MICROSECONDS`) and what is wrong on standard error. It leaves
// checks.json and counters.json, a CSV file for each probe, and the columns of both ends of every Tmix source; the
// Python half makes raw tables of them.

#include "changes.h"
#include "flows.h"
#include "libra.h"
#include "measure.h"
#include "samples.h"
#include "westwood.h"

#include <csignal>
#include <sys/prctl.h>

using namespace testbed;

namespace
{

/// Seconds that the network has to run empty.
constexpr int DRAIN_S = 10;

using Snapshot = std::vector<std::pair<WireCounters, std::vector<int64_t>>>;

Snapshot
Look(const Network& network)
{
    Snapshot snapshot;
    for (const LinkEnd& link : network.links)
    {
        snapshot.push_back({link.device->Counters(),
                            {link.SentPackets(), link.SentBytes(), link.Dropped(), link.BacklogPackets()}});
    }
    return snapshot;
}

void
PrintCounters(Output& file, const Network& network, const Snapshot& now, const Snapshot& before)
{
    file.Print("{");
    for (const LinkEnd& link : network.links)
    {
        const auto& [wire, queue] = now[link.index];
        const auto& [wireBefore, queueBefore] = before[link.index];
        file.Print("%s\"%s\": {\"from\": \"%s\", \"to\": \"%s\", \"sent_packets\": %ld, \"sent_bytes\": %ld, "
                   "\"dropped_packets\": %ld, \"queued_packets\": %ld, \"device_tx_packets\": %ld, "
                   "\"device_rx_packets\": %ld, \"wire_delivered_packets\": %ld, \"wire_dropped_packets\": %ld, "
                   "\"chosen_dropped_packets\": %ld, \"wire_queued_packets\": %ld}",
                   link.index ? ",\n " : "", link.name.c_str(), link.from.c_str(), link.to.c_str(),
                   long(queue[0] - queueBefore[0]), long(queue[1] - queueBefore[1]), long(queue[2] - queueBefore[2]),
                   long(queue[3]), long(wire.sent - wireBefore.sent), long(wire.arrived - wireBefore.arrived),
                   long(wire.delivered - wireBefore.delivered), long(wire.lost - wireBefore.lost),
                   long(wire.chosen - wireBefore.chosen), long(wire.waiting));
    }
    file.Print("}");
}

/// The network before traffic, as far as it was asked for.
void
Measure(Network& network, const std::vector<Order>& orders)
{
    Output file("checks.json");
    const char* separator = "";
    file.Print("{\"paths\": [");
    for (const Order& order : orders)
    {
        if (order.what == "echo")
        {
            file.Print("%s{\"number\": %s, \"measured_rtt_ns\": %ld}", separator, order.Text("number").c_str(),
                       long(RoundTripNs(network, order)));
            separator = ",\n ";
        }
    }
    separator = "";
    file.Print("],\n\"bottlenecks\": [");
    for (const Order& order : orders)
    {
        if (order.what == "overload")
        {
            file.Print("%s", separator);
            Saturate(network, order, file);
            separator = ",\n ";
        }
    }
    file.Print("]}\n");
    file.Close();
}

SocketSettings
ReadSettings(const Order& order)
{
    SocketSettings settings;
    settings.name = order.words.at(0);
    const std::string& type = order.Text("type");
    if (!TypeId::LookupByNameFailSafe(type, &settings.congestionControl))
    {
        Fail("this ns-3 has no " + type);
    }
    settings.quickAcks = order.Int("quick_acks");
    settings.minRtoUs = order.Int("min_rto_us");
    settings.varianceFloor = order.Int("rto_floor");
    settings.delayedAckUs = order.Int("delayed_ack_us");
    settings.recovery = order.Text("recovery");
    for (const auto& [key, value] : order.values)
    {
        if (key[0] == '+')
        {
            settings.algorithm[key.substr(1)] = value;
        }
    }
    return settings;
}

} // namespace

int
main(int argc, char** argv)
{
    // whoever started this must not leave it behind
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (argc != 2)
    {
        Fail("usage: driver ORDERS");
    }
    const std::vector<Order> orders = ReadOrders(argv[1]);
    std::map<std::string, SocketSettings> settings;
    int64_t durationUs = 0;
    for (const Order& order : orders)
    {
        if (order.what == "run")
        {
            RngSeedManager::SetSeed(order.Int("seed"));
            RngSeedManager::SetRun(order.Int("stream"));
            durationUs = order.Int("duration_us");
        }
        else if (order.what == "cca")
        {
            settings[order.words.at(0)] = ReadSettings(order);
        }
    }
    const auto settingsOf = [&](const Order& order) -> const SocketSettings& {
        const auto found = settings.find(order.Text("cca"));
        if (found == settings.end())
        {
            order.Wrong("no such congestion control");
        }
        return found->second;
    };
    Network network(orders);
    std::map<uint32_t, std::string> names;
    for (const auto& [name, host] : network.hosts)
    {
        names[network.At(name)->GetId()] = name;
    }
    std::printf("phase checks\n");
    std::fflush(stdout);
    Measure(network, orders);

    // traffic begins at a whole second
    Clock::zero = Seconds(std::ceil(Simulator::Now().GetSeconds()) + 1);
    std::list<Source> sources;
    std::list<BulkFlow> bulks;
    std::list<DatagramFlow> datagrams;
    for (const Order& order : orders)
    {
        if (order.what == "tmix")
        {
            const std::string &from = order.Text("initiator"), &to = order.Text("acceptor");
            sources.emplace_back(order, network.At(from), network.hosts.at(from), network.At(to), network.hosts.at(to),
                                 settingsOf(order));
            sources.back().Begin();
        }
        else if (order.what == "bulk")
        {
            const std::string &from = order.Text("sender"), &to = order.Text("receiver");
            bulks.emplace_back(order, network.At(from), network.hosts.at(from), network.At(to), network.hosts.at(to),
                               settingsOf(order));
        }
        else if (order.what == "datagrams")
        {
            datagrams.emplace_back(order, network.At(order.Text("sender")), network.At(order.Text("receiver")));
        }
    }
    const Snapshot before = Look(network);
    std::list<LinkChanges> changes;
    std::list<TracedLinks> traces;
    if (Any(orders, "change"))
    {
        changes.emplace_back(network, orders, "link_changes.csv");
    }
    if (Any(orders, "trace"))
    {
        traces.emplace_back(network, orders, "opportunities.csv");
    }
    std::list<QueueSamples> queues;
    std::list<SocketSamples> sockets;
    std::list<SegmentTrace> segments;
    std::list<SojournTimes> sojourns;
    for (const Order& order : orders)
    {
        if (order.what == "queue")
        {
            queues.emplace_back(network, true, order.Int("interval_us"), durationUs, "queue.csv");
            queues.emplace_back(network, false, order.Int("edge_interval_us"), durationUs, "edge_queue.csv");
        }
        else if (order.what == "tcp_info")
        {
            sockets.emplace_back(names, order.Int("interval_us"), durationUs, "tcp_info.csv");
        }
        else if (order.what == "tcp_probe")
        {
            segments.emplace_back(durationUs, "tcp_probe.csv", "retransmissions.csv");
        }
        else if (order.what == "sojourn")
        {
            sojourns.emplace_back(network, "sojourn.bin");
        }
    }
    Sampler progress(1000000, durationUs, [](int64_t us) {
        std::printf("t %ld\n", long(us));
        std::fflush(stdout);
    });
    Simulator::Stop(Clock::Until(durationUs) + NanoSeconds(1));
    Simulator::Run();
    const Snapshot end = Look(network);
    for (Source& source : sources)
    {
        source.End();
    }
    Output flows("flows.json");
    flows.Print("{\"bulk\": [");
    for (const BulkFlow& flow : bulks)
    {
        flows.Print("%s", &flow == &bulks.front() ? "" : ", ");
        flow.Report(flows);
    }
    for (auto& one : queues)
    {
        one.Close();
    }
    for (auto& one : sockets)
    {
        one.Close();
    }
    for (auto& one : segments)
    {
        one.Close();
    }
    for (auto& one : changes)
    {
        one.Close();
    }
    for (auto& one : traces)
    {
        one.Close();
    }
    if (datagrams.empty())
    {
        network.SilenceHosts();
    }
    Sleep(Seconds(DRAIN_S));
    for (auto& one : sojourns)
    {
        one.Close();
    }
    flows.Print("],\n\"datagrams\": [");
    for (const DatagramFlow& flow : datagrams)
    {
        flows.Print("%s", &flow == &datagrams.front() ? "" : ", ");
        flow.Report(flows);
    }
    flows.Print("]}\n");
    flows.Close();
    Output counters("counters.json");
    counters.Print("{\"at_end\": ");
    PrintCounters(counters, network, end, before);
    counters.Print(",\n\"drained\": ");
    PrintCounters(counters, network, Look(network), before);
    counters.Print("}\n");
    counters.Close();
    std::printf("done %lu\n", static_cast<unsigned long>(Simulator::GetEventCount()));
    std::fflush(stdout);
    // everything is written; taking the network apart would take time and tell nothing
    std::_Exit(0);
}
