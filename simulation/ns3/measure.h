// SPDX-License-Identifier: GPL-2.0-only
// The idle network, measured before any traffic, as testbed/guest/checks.py does it in a kernel.
#pragma once

#include "network.h"

#include <list>

namespace testbed
{

constexpr uint16_t DISCARD_PORT = 9;
/// IP packet of 84 bytes, as of `ping`
constexpr uint32_t ECHO_BYTES = 56;
constexpr uint32_t BLAST_BYTES = 1472;

/// Simulate for a while.
inline void
Sleep(Time duration)
{
    Simulator::Stop(duration);
    Simulator::Run();
}

/// Shortest of three idle round trips in ns; -1 if 30 tries do not give three.
inline int64_t
RoundTripNs(Network& network, const Order& path)
{
    const InetSocketAddress target(Ipv4Address(path.Text("to_address").c_str()), DISCARD_PORT);
    Ptr<Socket> client = Socket::CreateSocket(network.At(path.Text("from")), UdpSocketFactory::GetTypeId());
    Ptr<Socket> server = Socket::CreateSocket(network.At(path.Text("to")), UdpSocketFactory::GetTypeId());
    if (client->Bind() != 0 || server->Bind(target) != 0)
    {
        path.Wrong("no socket to measure with");
    }
    server->SetRecvCallback([](Ptr<Socket> socket) {
        Address from;
        while (Ptr<Packet> packet = socket->RecvFrom(from))
        {
            socket->SendTo(packet, 0, from);
        }
    });
    bool answered = false;
    client->SetRecvCallback([&](Ptr<Socket> socket) {
        while (socket->Recv())
        {
            answered = true;
        }
        Simulator::Stop();
    });
    const Time patience = MicroSeconds(2 * path.Int("expected_us")) + Seconds(1);
    int64_t shortest = -1;
    for (int tries = 0, answers = 0; tries < 30 && answers < 3; tries++)
    {
        answered = false;
        const Time began = Simulator::Now();
        Simulator::ScheduleWithContext(network.At(path.Text("from"))->GetId(), Time(0),
                                       [&] { client->SendTo(Create<Packet>(ECHO_BYTES), 0, target); });
        const EventId stop = Simulator::Schedule(patience, [] { Simulator::Stop(); });
        Simulator::Run();
        Simulator::Cancel(stop);
        if (answered)
        {
            answers++;
            const int64_t took = (Simulator::Now() - began).GetNanoSeconds();
            shortest = shortest < 0 ? took : std::min(shortest, took);
        }
    }
    client->Close();
    server->Close();
    return shortest;
}

/// Overload a link from hosts behind it; prints what raw/checks.json has of it.
inline void
Saturate(Network& network, const Order& order, Output& file)
{
    LinkEnd& link = network.Link(order.words.at(0));
    struct Blaster
    {
        Ptr<Socket> socket;
        InetSocketAddress target;
        uint32_t context;
    };

    std::list<Blaster> blasters;
    std::vector<Ptr<Socket>> sinks;
    bool stopped = false;
    const Time gap = NanoSeconds(order.Int("interval_ns"));
    std::function<void(Blaster*)> blast = [&](Blaster* one) {
        if (!stopped)
        {
            one->socket->SendTo(Create<Packet>(BLAST_BYTES), 0, one->target);
            Simulator::Schedule(gap, [&blast, one] { blast(one); });
        }
    };
    // host target address, for each sender
    for (size_t i = 1; i + 2 < order.words.size(); i += 3)
    {
        const InetSocketAddress target(Ipv4Address(order.words[i + 2].c_str()), DISCARD_PORT);
        Ptr<Socket> sink = Socket::CreateSocket(network.At(order.words[i + 1]), UdpSocketFactory::GetTypeId());
        // two senders may have the same target
        sink->Bind(target);
        sink->SetRecvCallback([](Ptr<Socket> socket) {
            while (socket->Recv())
            {
            }
        });
        sinks.push_back(sink);
        Ptr<Node> node = network.At(order.words[i]);
        Ptr<Socket> socket = Socket::CreateSocket(node, UdpSocketFactory::GetTypeId());
        socket->Bind();
        blasters.push_back({socket, target, node->GetId()});
        Blaster* one = &blasters.back();
        Simulator::ScheduleWithContext(one->context, Time(0), [&blast, one] { blast(one); });
    }
    const int64_t dropsBefore = link.Dropped();
    Sleep(Seconds(order.Number("fill_s")));
    const int64_t bytes = link.SentBytes(), packets = link.SentPackets();
    int64_t longestPackets = link.BacklogPackets(), longestBytes = link.BacklogBytes();
    const double window = order.Number("window_s");
    const Time began = Simulator::Now();
    for (int i = 0; i < 50; i++)
    {
        Sleep(Seconds(window / 50));
        longestPackets = std::max(longestPackets, link.BacklogPackets());
        longestBytes = std::max(longestBytes, link.BacklogBytes());
    }
    const double took = (Simulator::Now() - began).GetSeconds();
    const int64_t sentBytes = link.SentBytes() - bytes, sentPackets = link.SentPackets() - packets;
    stopped = true;
    Sleep(Seconds(order.Number("drain_s")) + 2 * gap);
    for (Blaster& one : blasters)
    {
        one.socket->Close();
    }
    for (Ptr<Socket> sink : sinks)
    {
        sink->Close();
    }
    file.Print("{\"link\": \"%s\", \"measured_bps\": %.3f, \"window_packets\": %ld, \"longest_queue_packets\": %ld, "
               "\"longest_queue_bytes\": %ld, \"dropped_packets\": %ld}",
               link.name.c_str(), sentBytes * 8 / took, long(sentPackets), long(longestPackets), long(longestBytes),
               long(link.Dropped() - dropsBefore));
}

} // namespace testbed
