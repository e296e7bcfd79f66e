// SPDX-License-Identifier: GPL-2.0-only
// The network of a run: nodes, links, routes, and what can be asked of them.
#pragma once

#include "endpoint.h"
#include "queues.h"

namespace testbed
{

/// One direction of a link.
struct LinkEnd
{
    std::string name, from, to;
    bool bottleneck = false;
    int64_t rateBps = 0;
    int index = 0; ///< place in the network's list
    Ptr<WireDevice> device;
    Ptr<QueueDisc> queue;

    int64_t SentPackets() const
    {
        return queue->GetStats().nTotalSentPackets;
    }

    /// As layer 2 counts them.
    int64_t SentBytes() const
    {
        return queue->GetStats().nTotalSentBytes + int64_t(ETHERNET_BYTES) * SentPackets();
    }

    int64_t Dropped() const
    {
        return queue->GetStats().nTotalDroppedPackets;
    }

    int64_t BacklogPackets() const
    {
        return queue->GetNPackets();
    }

    int64_t BacklogBytes() const
    {
        return queue->GetNBytes() + int64_t(ETHERNET_BYTES) * queue->GetNPackets();
    }
};

class Network
{
  public:
    std::vector<LinkEnd> links;
    std::map<std::string, HostSettings> hosts;

    explicit Network(const std::vector<Order>& orders)
    {
        std::vector<Order> linkOrders;
        InternetStackHelper stack;
        Ipv4StaticRoutingHelper routing;
        stack.SetRoutingHelper(routing);
        stack.SetIpv6StackInstall(false);
        for (const Order& order : orders)
        {
            if (order.what == "node")
            {
                const std::string& name = order.words.at(0);
                m_nodes[name] = CreateObject<Node>();
                stack.Install(m_nodes[name]);
                if (order.Int("host"))
                {
                    hosts[name] = {order.Int("sack") != 0, int(order.Int("ecn")), int(order.Int("initcwnd")),
                                   order.Int("restart_after_idle") != 0, uint32_t(order.Int("rcvbuf")),
                                   uint32_t(order.Int("sndbuf"))};
                }
            }
            else if (order.what == "link")
            {
                linkOrders.push_back(order);
            }
        }
        // the two directions of a link follow each other
        for (size_t i = 0; i + 1 < linkOrders.size(); i += 2)
        {
            AddEnd(linkOrders[i]);
            AddEnd(linkOrders[i + 1]);
            links[i].device->SetPeer(links[i + 1].device);
            links[i + 1].device->SetPeer(links[i].device);
        }
        for (const Order& order : orders)
        {
            if (order.what == "route")
            {
                AddRoute(order, routing);
            }
            else if (order.what == "lose")
            {
                Link(order.words.at(0)).device->Lose(order.Int("sequence"), order.Int("copies"));
            }
        }
    }

    Ptr<Node> At(const std::string& name) const
    {
        const auto found = m_nodes.find(name);
        if (found == m_nodes.end())
        {
            Fail("orders: no node " + name);
        }
        return found->second;
    }

    LinkEnd& Link(const std::string& name)
    {
        for (LinkEnd& link : links)
        {
            if (link.name == name)
            {
                return link;
            }
        }
        Fail("orders: no link " + name);
    }

    /// Hosts neither send nor take anything from now on, so that the network runs empty.
    void SilenceHosts()
    {
        for (const auto& [name, settings] : hosts)
        {
            Ptr<Ipv4> ip = At(name)->GetObject<Ipv4>();
            for (uint32_t i = 1; i < ip->GetNInterfaces(); i++)
            {
                ip->SetDown(i);
            }
        }
    }

  private:
    void AddEnd(const Order& order)
    {
        LinkEnd end;
        end.name = order.words.at(0);
        end.from = order.Text("from");
        end.to = order.Text("to");
        end.bottleneck = order.Int("bottleneck");
        end.rateBps = order.Int("rate_bps");
        end.index = links.size();
        Ptr<Node> node = At(end.from);
        end.device = CreateObject<WireDevice>();
        end.device->SetAddress(Mac48Address::Allocate());
        end.device->AggregateObject(CreateObject<NetDeviceQueueInterface>());
        node->AddDevice(end.device);
        end.device->Configure(end.name, end.rateBps, MicroSeconds(order.Int("delay_us")),
                              order.Number("loss_percent") / 100);
        end.queue = MakeQueue(order);
        // before the address: with it a device gets a queue disc of ns-3's choice
        node->GetObject<TrafficControlLayer>()->SetRootQueueDiscOnDevice(end.device, end.queue);
        Ptr<Ipv4> ip = node->GetObject<Ipv4>();
        const uint32_t interface = ip->AddInterface(end.device);
        const Ipv4Address address(order.Text("address").c_str());
        // a switch's port has none, but ns-3 forwards nothing without: one that nobody asks for (RFC 3927)
        ip->AddAddress(interface, address == Ipv4Address::GetAny()
                                      ? Ipv4InterfaceAddress(Ipv4Address(0xA9FE0001 + links.size()), "255.255.255.255")
                                      : Ipv4InterfaceAddress(address, "255.255.255.0"));
        ip->SetUp(interface);
        m_interfaces[end.from + "/" + order.Text("device")] = interface;
        links.push_back(end);
    }

    void AddRoute(const Order& order, Ipv4StaticRoutingHelper& routing)
    {
        const std::string& name = order.words.at(0);
        Ptr<Ipv4StaticRouting> table = routing.GetStaticRouting(At(name)->GetObject<Ipv4>());
        const uint32_t interface = m_interfaces.at(name + "/" + order.Text("device"));
        const Ipv4Address via(order.Text("via").c_str());
        const std::string& to = order.Text("to");
        if (to == "default")
        {
            table->SetDefaultRoute(via, interface);
        }
        else
        {
            const auto slash = to.find('/');
            table->AddNetworkRouteTo(Ipv4Address(to.substr(0, slash).c_str()), Ipv4Mask(to.substr(slash).c_str()), via,
                                     interface);
        }
    }

    std::map<std::string, Ptr<Node>> m_nodes;
    std::map<std::string, uint32_t> m_interfaces;
};

} // namespace testbed
