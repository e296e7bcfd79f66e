# SPDX-License-Identifier: GPL-2.0-only
# One-way agents: each sends whole packets of its size to a sink, which sends nothing but acknowledgements.
#
# A connection of Tmix is two of them, one for each direction. What a two-way agent does by itself is done here: SYN and
# FIN are packets of one byte, and whatever is written begins with a packet size that fits it, so that a data unit has as
# many packets as over TCP, and as many bytes. A write while others are under way has their size: its last packet is full.

Class Arrival -superclass Application
Arrival instproc recv bytes {
    $self instvar end
    arrived $end $bytes
}

set headers 66

# Linux:NAME is a module of Linux's in Agent/TCP/Linux, with delayed acknowledgements as Linux has them. Tahoe, Reno,
# Newreno, Sack1 and Vegas are the agents of studies made with ns-2, with the sinks of these.
proc one_way_agents {order {more_initially 0}} {
    global ns node_of host_of node_of_agent
    set host [dict get $host_of [value $order sender]]
    set kind [value $order agent]
    set segment [value $order segment_bytes]
    set window [value $order window]
    set linux [string match Linux:* $kind]
    set sender [new [expr {$kind eq "Tahoe" ? "Agent/TCP" : "Agent/TCP/[lindex [split $kind :] 0]"}]]
    foreach {name setting} [list packetSize_ $segment tcpip_base_hdr_size_ 54 ts_option_size_ 12 \
            windowInit_ [expr {[value $host initcwnd] + $more_initially}] windowInitOption_ 1 tcpTick_ 0.001 rtxcur_init_ 1 timestamps_ true \
            partial_ack_ true minrto_ 0.2 window_ [expr {$window ? $window : [value $host rcvbuf] / $segment}]] {
        $sender set $name $setting
    }
    # the window and threshold of an agent are those of its settings when it was made
    $sender reset
    $ns attach-agent [dict get $node_of [value $order sender]] $sender
    if {$linux} {
        $sender select_ca [lindex [split $kind :] 1]
    }
    set sink [new Agent/TCPSink[expr {$linux || $kind eq "Sack1" ? "/Sack1" : ""}][expr {$linux ? "/DelAck" : ""}]]
    if {$linux} {
        $sink set interval_ 0.04
    }
    $sink set ts_echo_rfc1323_ true
    $sink set packetSize_ 66
    $ns attach-agent [dict get $node_of [value $order receiver]] $sink
    set node_of_agent($sender) [value $order sender]
    return [list $sender $sink]
}

# Two agents for the two directions of a connection, new or used before by one that has ended.
proc one_way_pair {from to kind} {
    global ns sink_of app_of
    set pair {}
    foreach {node other} [list $from $to $to $from] {
        # SYN and its acknowledgement add one to the window
        lassign [one_way_agents [list agents {} [dict create sender $node receiver $other agent $kind segment_bytes 1448 \
            window 0]] -1] sender sink
        $ns connect $sender $sink
        set app [new Arrival]
        $app attach-agent $sink
        $app start
        set sink_of($sender) $sink
        set app_of($sender) $app
        lappend pair $sender
    }
    return $pair
}

proc reset_one_way {sender kind} {
    global sink_of
    $sender reset
    $sink_of($sender) reset
    # what the module knows of the last connection is forgotten
    $sender select_ca [lindex [split $kind :] 1]
}

# True if nothing of what it sent can come, or be acknowledged, any more.
proc one_way_is_over {sender} {
    return [expr {[$sender set ack_] == [$sender set maxseq_]}]
}

proc open_one_way {a b} {
    global written
    set written($a) {}
    set written($b) {}
    write_packets $a 0 syn
}

# Hand bytes over; what is under way keeps the packet size that it was sent with.
proc write_packets {end bytes what} {
    global written packet_size segment tcp
    if {![llength $written($end)]} {
        set packets [expr {max(1, ($bytes + $segment($end) - 1) / $segment($end))}]
        set packet_size($end) [expr {max(1, ($bytes + $packets - 1) / $packets)}]
        $tcp($end) set packetSize_ $packet_size($end)
    }
    set packets [expr {max(1, ($bytes + $packet_size($end) - 1) / $packet_size($end))}]
    lappend written($end) [list $packets $bytes $what]
    $tcp($end) advanceby $packets
}

# So many bytes of frames that an end has sent have come, in order.
proc arrived {end frame_bytes} {
    global written packet_size headers peer_of
    set packets [expr {$frame_bytes / ($packet_size($end) + $headers)}]
    while {$packets && [llength $written($end)]} {
        lassign [lindex $written($end) 0] left bytes what
        set taken [expr {min($packets, $left)}]
        set got [expr {$taken == $left ? $bytes : $taken * $packet_size($end)}]
        incr packets -$taken
        if {$taken == $left} {
            set written($end) [lrange $written($end) 1 end]
        } else {
            lset written($end) 0 [list [expr {$left - $taken}] [expr {$bytes - $got}] $what]
        }
        one_way_$what $peer_of($end) $got
    }
}

proc one_way_data {end bytes} {
    received $end $bytes
}

# A SYN has come: the acceptor answers with one; the initiator is established, and the acceptor half a round trip later.
proc one_way_syn {end bytes} {
    global source_of source_order peer_of ns ended
    if {$ended} {
        return
    }
    lassign $source_of($end) source side
    if {$side eq "a"} {
        write_packets $end 0 syn
    } else {
        at_s [expr {[$ns now] + [value $source_order($source) base_rtt_us] / 2e6}] [list accepted $peer_of($end)]
        established $end [now_us]
    }
}

proc one_way_fin {end bytes} {
    global closing
    if {![info exists closing($end)]} {
        set closing($end) 1
        write_packets $end 0 fin
    }
    closed $end
}
