# SPDX-License-Identifier: GPL-2.0-only
"""What nstat calls the counters of a TCP/IP stack: TcpRetransSegs, TcpExtTCPHystartTrainDetect, IpExtInCEPkts, ...

Runs record all that their kernel has (raw/snmp.json), of which this is a list in Linux 6.12, to tell a counter that
stayed 0 from a word that is none. A kernel may have others: they are known where they counted something.
"""
import re
from collections.abc import Iterable

#: of names in /proc/net/snmp, netstat and snmp6
PROTOCOLS = ("Icmp", "Icmp6", "IcmpMsg", "Ip", "Ip6", "IpExt", "MPTcpExt", "Tcp", "TcpExt", "Udp", "Udp6", "UdpLite",
             "UdpLite6")
_NAME = re.compile(r"[A-Z][A-Za-z0-9]{1,80}")
_OF_PROTOCOLS = {
    "Ip": (
        "InReceives InHdrErrors InAddrErrors ForwDatagrams InUnknownProtos InDiscards InDelivers OutRequests "
        "OutDiscards OutNoRoutes ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs FragFails FragCreates "
        "OutTransmits"),
    "IpExt": (
        "InNoRoutes InTruncatedPkts InMcastPkts OutMcastPkts InBcastPkts OutBcastPkts InOctets OutOctets "
        "InMcastOctets OutMcastOctets InBcastOctets OutBcastOctets InCsumErrors InNoECTPkts InECT1Pkts InECT0Pkts "
        "InCEPkts ReasmOverlaps"),
    "Tcp": (
        "ActiveOpens PassiveOpens AttemptFails EstabResets InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors"),
    "Udp": (
        "InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti MemErrors"),
    "TcpExt": (
        "SyncookiesSent SyncookiesRecv SyncookiesFailed EmbryonicRsts PruneCalled RcvPruned OfoPruned "
        "OutOfWindowIcmps LockDroppedIcmps ArpFilter TW TWRecycled TWKilled PAWSActive PAWSEstab DelayedACKs "
        "DelayedACKLocked DelayedACKLost ListenOverflows ListenDrops TCPHPHits TCPPureAcks TCPHPAcks TCPRenoRecovery "
        "TCPSackRecovery TCPSACKReneging TCPSACKReorder TCPRenoReorder TCPTSReorder TCPFullUndo TCPPartialUndo "
        "TCPDSACKUndo TCPLossUndo TCPLostRetransmit TCPRenoFailures TCPSackFailures TCPLossFailures TCPFastRetrans "
        "TCPSlowStartRetrans TCPTimeouts TCPLossProbes TCPLossProbeRecovery TCPRenoRecoveryFail TCPSackRecoveryFail "
        "TCPRcvCollapsed TCPBacklogCoalesce TCPDSACKOldSent TCPDSACKOfoSent TCPDSACKRecv TCPDSACKOfoRecv "
        "TCPAbortOnData TCPAbortOnClose TCPAbortOnMemory TCPAbortOnTimeout TCPAbortOnLinger TCPAbortFailed "
        "TCPMemoryPressures TCPMemoryPressuresChrono TCPSACKDiscard TCPDSACKIgnoredOld TCPDSACKIgnoredNoUndo "
        "TCPSpuriousRTOs TCPMD5NotFound TCPMD5Unexpected TCPMD5Failure TCPSackShifted TCPSackMerged "
        "TCPSackShiftFallback TCPBacklogDrop PFMemallocDrop TCPMinTTLDrop TCPDeferAcceptDrop IPReversePathFilter "
        "TCPTimeWaitOverflow TCPReqQFullDoCookies TCPReqQFullDrop TCPRetransFail TCPRcvCoalesce TCPOFOQueue "
        "TCPOFODrop TCPOFOMerge TCPChallengeACK TCPSYNChallenge TCPFastOpenActive TCPFastOpenActiveFail "
        "TCPFastOpenPassive TCPFastOpenPassiveFail TCPFastOpenListenOverflow TCPFastOpenCookieReqd "
        "TCPFastOpenBlackhole TCPSpuriousRtxHostQueues BusyPollRxPackets TCPAutoCorking TCPFromZeroWindowAdv "
        "TCPToZeroWindowAdv TCPWantZeroWindowAdv TCPSynRetrans TCPOrigDataSent TCPHystartTrainDetect "
        "TCPHystartTrainCwnd TCPHystartDelayDetect TCPHystartDelayCwnd TCPACKSkippedSynRecv TCPACKSkippedPAWS "
        "TCPACKSkippedSeq TCPACKSkippedFinWait2 TCPACKSkippedTimeWait TCPACKSkippedChallenge TCPWinProbe TCPKeepAlive "
        "TCPMTUPFail TCPMTUPSuccess TCPDelivered TCPDeliveredCE TCPAckCompressed TCPZeroWindowDrop TCPRcvQDrop "
        "TCPWqueueTooBig TCPFastOpenPassiveAltKey TcpTimeoutRehash TcpDuplicateDataRehash TCPDSACKRecvSegs "
        "TCPDSACKIgnoredDubious TCPMigrateReqSuccess TCPMigrateReqFailure TCPPLBRehash TCPAORequired TCPAOBad "
        "TCPAOKeyNotFound TCPAOGood TCPAODroppedIcmps")}
KNOWN = frozenset(protocol + name for protocol, names in _OF_PROTOCOLS.items() for name in names.split())


def is_name(text: str) -> bool:
    """Whether a text looks like a counter: metrics of runs begin with a small letter."""
    return bool(_NAME.fullmatch(text))


def meant(text: str, known: Iterable[str]) -> list[str]:
    """The full names that a text may mean: it is one, or one without its protocol (TCPHystartTrainDetect)."""
    names = set(known)
    return [text] if text in names else sorted(f"{protocol}{text}" for protocol in PROTOCOLS
                                               if f"{protocol}{text}" in names)


def has_protocol(text: str) -> bool:
    """Whether a text begins like a full name, such as one of a kernel that has more counters."""
    return any(re.fullmatch(rf"{protocol}[A-Z][A-Za-z0-9]+", text) for protocol in PROTOCOLS)
