// SPDX-License-Identifier: GPL-2.0-only
// TCP Libra for ns-3: the kernel module's own formulas (kernel-modules/tcp_libra/libra_math.h) in ns-3's hooks.
#pragma once

#include "../../kernel-modules/tcp_libra/libra_math.h"

#include "ns3/internet-module.h"
#include "ns3/tcp-linux-reno.h"

namespace testbed
{

using namespace ns3;

class TcpLibra : public TcpLinuxReno
{
  public:
    static TypeId GetTypeId()
    {
        static TypeId tid =
            TypeId("testbed::TcpLibra")
                .SetParent<TcpLinuxReno>()
                .AddConstructor<TcpLibra>()
                .AddAttribute("Capacity", "Of the bottleneck, bit/s", UintegerValue(100000000),
                              MakeUintegerAccessor(&TcpLibra::m_capacity), MakeUintegerChecker<uint64_t>(LIBRA_C_MIN))
                .AddAttribute("K1", "Scalability factor in thousandths", UintegerValue(2 * LIBRA_K_SCALE),
                              MakeUintegerAccessor(&TcpLibra::m_k1), MakeUintegerChecker<uint32_t>(0, LIBRA_K_MAX))
                .AddAttribute("K2", "Penalty factor in thousandths", UintegerValue(2 * LIBRA_K_SCALE),
                              MakeUintegerAccessor(&TcpLibra::m_k2), MakeUintegerChecker<uint32_t>(0, LIBRA_K_MAX))
                .AddAttribute("T0", "In microseconds", UintegerValue(1000000), MakeUintegerAccessor(&TcpLibra::m_t0),
                              MakeUintegerChecker<uint32_t>(LIBRA_T_MIN, LIBRA_T_MAX))
                .AddAttribute("T1", "In microseconds", UintegerValue(1000000), MakeUintegerAccessor(&TcpLibra::m_t1),
                              MakeUintegerChecker<uint32_t>(LIBRA_T_MIN, LIBRA_T_MAX));
        return tid;
    }

    std::string GetName() const override
    {
        return "TcpLibra";
    }

    Ptr<TcpCongestionOps> Fork() override
    {
        return CopyObject<TcpLibra>(this);
    }

    void PktsAcked(Ptr<TcpSocketState> tcb, uint32_t segments, const Time& rtt) override
    {
        TcpLinuxReno::PktsAcked(tcb, segments, rtt);
        if (!rtt.IsStrictlyPositive())
        {
            return;
        }
        const uint32_t t = std::clamp<int64_t>(rtt.GetMicroSeconds(), LIBRA_T_MIN, LIBRA_T_MAX);
        m_rtt.min = std::min(m_rtt.min, t);
        m_rtt.max = std::max(m_rtt.max, t);
        m_srtt = m_srtt ? m_srtt - (m_srtt >> 3) + t : t << 3;
    }

    uint32_t GetSsThresh(Ptr<const TcpSocketState> tcb, uint32_t) override
    {
        return libra_ssthresh(Parameters(), Rtt(), tcb->GetCwndInSegments()) * tcb->m_segmentSize;
    }

  protected:
    void CongestionAvoidance(Ptr<TcpSocketState> tcb, uint32_t segments) override
    {
        const uint32_t before = tcb->GetCwndInSegments();
        u64 credit = m_credit;
        const uint32_t after = libra_grow(Parameters(), Rtt(), &credit, before, segments);
        m_credit = credit;
        tcb->m_cWnd += (after - before) * tcb->m_segmentSize;
    }

  private:
    const libra_params* Parameters()
    {
        m_parameters = {m_capacity, m_k1, m_k2, m_t0, m_t1};
        return &m_parameters;
    }

    const libra_rtt* Rtt()
    {
        m_rtt.t = m_srtt >> 3;
        return &m_rtt;
    }

    uint64_t m_capacity = 100000000;
    uint32_t m_k1 = 0, m_k2 = 0, m_t0 = 0, m_t1 = 0;
    uint64_t m_credit = 0;
    uint32_t m_srtt = 0;
    libra_params m_parameters{};
    libra_rtt m_rtt{0, LIBRA_T_MAX, 0};
};

NS_OBJECT_ENSURE_REGISTERED(TcpLibra);

} // namespace testbed
