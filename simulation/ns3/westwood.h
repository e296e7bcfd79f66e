// SPDX-License-Identifier: GPL-2.0-only
// Westwood+ of ns-3, without two faults: a socket that forks from a listening one begins with a count of segments that
// nobody has set (its copy constructor leaves it out), so that the first sample of the bandwidth is whatever was in
// memory; and the event that takes the next sample outlives its socket, and then writes where that has been.
#pragma once

#include "ns3/internet-module.h"
// 3.37 has both kinds of Westwood in one class; later ones have Westwood+ alone
#if __has_include("ns3/tcp-westwood-plus.h")
#include "ns3/tcp-westwood-plus.h"
#else
#include "ns3/tcp-westwood.h"
#endif

namespace testbed
{

using namespace ns3;

#if __has_include("ns3/tcp-westwood-plus.h")
using WestwoodOfNs3 = ns3::TcpWestwoodPlus;
#else
using WestwoodOfNs3 = ns3::TcpWestwood;
#endif

class Westwood : public WestwoodOfNs3
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid = TypeId("testbed::Westwood").SetParent<WestwoodOfNs3>().AddConstructor<Westwood>();
        return tid;
    }

    Westwood() = default;

    Westwood(const Westwood& other)
        : WestwoodOfNs3(other)
    {
        m_ackedSegments = 0;
        m_IsCount = false;
        m_bwEstimateEvent = EventId();
    }

    ~Westwood() override
    {
        m_bwEstimateEvent.Cancel();
    }

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<Westwood>(this);
    }
};

NS_OBJECT_ENSURE_REGISTERED(Westwood);

} // namespace testbed
