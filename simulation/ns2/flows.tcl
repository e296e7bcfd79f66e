# SPDX-License-Identifier: GPL-2.0-only
# Single flows: TCP that sends all it can, or a number of bytes; UDP at equal distances or at listed instants.
#
# A kind of agent that begins with FullTcp is two-way; others send one way, in whole packets, to a sink.

Class Counted -superclass Application
Counted instproc recv bytes {
    $self instvar count bytes_seen
    incr count
    incr bytes_seen $bytes
}

proc begin_flows {orders} {
    foreach order [orders_of $orders bulk] {
        at_us [value $order start_us] [list start_bulk $order]
    }
    foreach order [orders_of $orders datagrams] {
        begin_datagrams $order
    }
}

proc start_bulk {order} {
    global ns bulk bulk_kind
    set flow [value $order flow]
    set kind [value $order agent]
    if {[is_two_way $kind]} {
        set sender [two_way_agent [value $order sender] $kind]
        set receiver [two_way_agent [value $order receiver] $kind]
        foreach agent [list $sender $receiver] {
            $agent set segsize_ [value $order segment_bytes]
            if {[value $order window]} {
                $agent set window_ [value $order window]
            }
            counted $agent
        }
        $receiver listen
    } else {
        lassign [one_way_agents $order] sender receiver
        counted $receiver
    }
    $ns connect $sender $receiver
    set bulk($flow) [list $order $sender $receiver]
    set bytes [value $order bytes]
    if {[dict exists [lindex $order 2] bursts]} {
        begin_bursts $order $sender
    } elseif {[is_two_way $kind]} {
        if {$bytes > $::most_bytes} {
            give_up "flow $flow: $bytes bytes; ns-2 sends no more than $::most_bytes in one connection"
        }
        set total [expr {$bytes ? $bytes : $::most_bytes}]
        $sender advance-bytes $total
        # what it has not sent by then is taken back
        at_us [value $order stop_us] [list stop_bulk $flow $sender $total $bytes]
    } else {
        set segment [value $order segment_bytes]
        $sender advanceby [expr {$bytes ? ($bytes + $segment - 1) / $segment : 1 << 30}]
        if {!$bytes} {
            # its data end with what it has sent
            at_us [value $order stop_us] [list $sender advance 0]
        }
    }
}

# A two-way agent counts what it was given in 31 bits, and stops for good when that runs over.
set most_bytes 2147000000

proc stop_bulk {flow sender total bytes} {
    set sent [$sender set t_seqno_]
    if {$sent < $total} {
        $sender advance-bytes [expr {$sent - $total}]
    } elseif {!$bytes} {
        give_up "flow $flow: ns-2 sends no more than $total bytes in one connection"
    }
}

# -- a flow that rests now and then: what it may have written ahead when it stops writing goes out ------

# as in traffic/greedy/flows.py
set most_unsent_bytes 131072

proc begin_bursts {order sender} {
    foreach {from to} [int64s_of [value $order bursts]] {
        at_us $from [list resume_bulk $order $sender]
        at_us $to [list rest_bulk $order $sender]
    }
}

proc resume_bulk {order sender} {
    if {[is_two_way [value $order agent]]} {
        global given most_bytes
        if {![info exists given($sender)]} {
            set given($sender) 0
        }
        $sender advance-bytes [expr {$most_bytes - $given($sender)}]
        set given($sender) $most_bytes
    } else {
        $sender advance [expr {1 << 30}]
    }
}

proc rest_bulk {order sender} {
    global given most_unsent_bytes most_bytes
    if {![is_two_way [value $order agent]]} {
        $sender advance [expr {[$sender set maxseq_] + 1 + $most_unsent_bytes / [value $order segment_bytes]}]
        return
    }
    set total [expr {max([$sender set t_seqno_], [$sender set maxseq_]) + $most_unsent_bytes}]
    if {$total >= $given($sender)} {
        give_up "flow [value $order flow]: ns-2 sends no more than $most_bytes bytes in one connection"
    }
    $sender advance-bytes [expr {$total - $given($sender)}]
    set given($sender) $total
}

proc counted {agent} {
    global app_of
    set app [new Counted]
    $app set count 0
    $app set bytes_seen 0
    $app attach-agent $agent
    $app start
    set app_of($agent) $app
}

# -- UDP: sizes are those of frames ------------------------------------------------------------------

proc begin_datagrams {order} {
    global ns node_of datagrams departures
    set size [expr {[value $order payload_bytes] + 42}]
    set sender [udp_agent [value $order sender] $size]
    set receiver [sink_agent [value $order receiver]]
    counted $receiver
    $ns connect $sender $receiver
    set flow [value $order flow]
    set datagrams($flow) [list $order $sender $receiver]
    set departures($flow) [departures_of $order]
    await_datagram $flow $sender $size 0
}

# When packets leave, ns: {equal START GAP NUMBER} or {listed INSTANTS}.
proc departures_of {order} {
    if {[dict exists [lindex $order 2] gap_ns]} {
        set start_ns [expr {1000 * [value $order start_us]}]
        set gap_ns [value $order gap_ns]
        return [list equal $start_ns $gap_ns [expr {(1000 * [value $order stop_us] - $start_ns + $gap_ns - 1) / $gap_ns}]]
    }
    return [list listed [int64s_of [value $order departures]]]
}

proc udp_agent {node size} {
    global ns node_of
    set agent [new Agent/UDP]
    $agent set packetSize_ $size
    $ns attach-agent [dict get $node_of $node] $agent
    return $agent
}

# What UDP arrives at: a UDP agent itself knows only of packets with real data in them.
proc sink_agent {node} {
    global ns node_of
    set agent [new Agent/Null]
    $ns attach-agent [dict get $node_of $node] $agent
    return $agent
}

# Send packet `number` when it is due, and those after it.
proc await_datagram {flow sender size number} {
    global departures
    if {[lindex $departures($flow) 0] eq "equal"} {
        lassign $departures($flow) kind start_ns gap_ns most
        set due_ns [expr {$start_ns + $number * $gap_ns}]
    } else {
        set most [llength [lindex $departures($flow) 1]]
        set due_ns [lindex $departures($flow) 1 $number]
    }
    if {$number < $most} {
        at_us [expr {$due_ns / 1e3}] [list send_datagram $flow $sender $size $number]
    }
}

proc send_datagram {flow sender size number} {
    global sent_datagrams
    $sender send $size
    incr number
    set sent_datagrams($flow) $number
    await_datagram $flow $sender $size $number
}

proc write_flows {} {
    global bulk datagrams app_of sent_datagrams
    set lines {}
    foreach flow [lsort -integer [array names bulk]] {
        lassign $bulk($flow) order sender receiver
        lappend lines "{\"flow\": $flow, \"received_bytes\": [$app_of($receiver) set bytes_seen]}"
    }
    set more {}
    foreach flow [lsort -integer [array names datagrams]] {
        lassign $datagrams($flow) order sender receiver
        set packet [expr {[value $order payload_bytes] + 28}]
        set count [$app_of($receiver) set count]
        set sent [expr {[info exists sent_datagrams($flow)] ? $sent_datagrams($flow) : 0}]
        lappend more "{\"flow\": $flow, \"sent_packets\": $sent, \"sent_bytes\": [expr {$sent * $packet}],\
            \"received_packets\": $count, \"received_bytes\": [expr {$count * $packet}], \"reordered_packets\": 0,\
            \"duplicate_packets\": 0, \"socket_dropped_packets\": 0}"
    }
    set file [open flows.json w]
    puts $file "{\"bulk\": \[[join $lines ", "]\],\n\"datagrams\": \[[join $more ", "]\]}"
    close $file
}
