# SPDX-License-Identifier: GPL-2.0-only
# Tmix: both ends of every connection of a plan. An end is called SOURCE.CONNECTION.i or SOURCE.CONNECTION.a.
#
# What an end is about to do is in arrays by its name: op, last_op (its own), peer_op, peer_last, got, expected, mark,
# state, tcp, segment. Columns of a source's plan and records are lists and arrays by SOURCE,SIDE,COLUMN.

Class Replayed -superclass Application
Replayed instproc recv bytes {
    $self instvar end
    received $end $bytes
}

# A two-way agent has closed, the other side's FIN is here.
Agent/TCP/FullTcp instproc done {} {
    global end_of
    if {[info exists end_of($self)]} {
        closed $end_of($self)
    }
}
Agent/TCP/FullTcp instproc done_data {} {}

set sources {}
# how often a connection is asked whether it is established: a share of the time that it has taken so far
set poll_share 0.02

proc begin_sources {orders} {
    foreach order [orders_of $orders tmix] {
        begin_source $order
    }
}

proc begin_source {order} {
    global column sources source_order next_connection
    set source [value $order flow]
    lappend sources $source
    set source_order($source) $order
    set next_connection($source) 0
    set file [open [value $order plan] rb]
    seek $file [value $order offset]
    set n [value $order connections]
    set init [value $order init_ops]
    set acc [value $order acc_ops]
    foreach {name rows} [list start_us $n conn_id $n mss_init $n mss_acc $n prefill $n i,first [expr {$n + 1}] \
            a,first [expr {$n + 1}] i,need $init i,wait $init i,bytes $init a,need $acc a,wait $acc a,bytes $acc] {
        binary scan [read $file [expr {8 * $rows}]] w* column($source,$name)
    }
    close $file
    next_start $source
}

proc next_start {source} {
    global column next_connection
    if {$next_connection($source) < [llength $column($source,start_us)]} {
        at_us [lindex $column($source,start_us) $next_connection($source)] [list start_connection $source]
    }
}

proc start_connection {source} {
    global ns column next_connection source_order tcp peer_of end_of app_of record active ended early segment
    if {$ended} {
        return
    }
    set index $next_connection($source)
    incr next_connection($source)
    next_start $source
    set order $source_order($source)
    set a $source.$index.i
    set b $source.$index.a
    lassign [agents [value $order initiator] [value $order acceptor] [value $order agent]] tcp($a) tcp($b)
    foreach {end other side sizes} [list $a $b i mss_init $b $a a mss_acc] {
        set mss [lindex $column($source,$sizes) $index]
        set peer_of($end) $other
        set end_of($tcp($end)) $end
        $app_of($tcp($end)) set end $end
        set segment($end) [expr {($mss && $mss < 1460 ? $mss : 1460) - 12}]
        prepare_end $end $source $index $side
        set active($end) 1
    }
    set record($a,start) [now_us]
    if {![is_two_way [value $order agent]]} {
        open_one_way $a $b
        return
    }
    foreach end [list $a $b] {
        $tcp($end) set segsize_ $segment($end)
    }
    $ns connect $tcp($a) $tcp($b)
    $tcp($b) listen
    # data that wait for nothing go as soon as the connection is established, which is found out a little later
    lassign [lrange $column($source,i,first) $index $index+1] first last
    set early($a) [expr {$first < $last && [lindex $column($source,i,need) $first] == 0 && [lindex $column($source,i,wait) $first] == 0
        ? [lindex $column($source,i,bytes) $first] : 0}]
    $tcp($a) advance-bytes $early($a)
    set handshake_s [expr {[value $order base_rtt_us] / 1e6}]
    at_s [expr {[$ns now] + $handshake_s}] [list wait_connected $a $record($a,start)]
}

proc prepare_end {end source index side} {
    global column op last_op peer_op peer_last got expected mark state status source_of
    set peer [expr {$side eq "i" ? "a" : "i"}]
    set source_of($end) [list $source $side $index]
    lassign [lrange $column($source,$side,first) $index $index+1] op($end) last_op($end)
    lassign [lrange $column($source,$peer,first) $index $index+1] peer_op($end) peer_last($end)
    set got($end) 0
    set expected($end) 0
    foreach bytes [lrange $column($source,$peer,bytes) $peer_op($end) $peer_last($end)-1] {
        incr expected($end) $bytes
    }
    set mark($end) [expr {$expected($end) ? [lindex $column($source,$peer,bytes) $peer_op($end)] : -1}]
    set state($end) connecting
    set status($end) 1
}

# Two agents that talk to each other, new or used before by a connection that has ended.
proc agents {from to kind} {
    global idle app_of
    if {[info exists idle($from,$to,$kind)] && [llength $idle($from,$to,$kind)]} {
        set pair [lindex $idle($from,$to,$kind) 0]
        set idle($from,$to,$kind) [lrange $idle($from,$to,$kind) 1 end]
        foreach one $pair {
            if {[is_two_way $kind]} {
                $one reset
            } else {
                reset_one_way $one $kind
            }
        }
        return $pair
    }
    if {![is_two_way $kind]} {
        return [one_way_pair $from $to $kind]
    }
    set pair {}
    foreach node [list $from $to] {
        lappend pair [two_way_agent $node $kind]
    }
    return $pair
}

proc is_two_way {kind} {
    return [string match FullTcp* $kind]
}

proc two_way_agent {node kind} {
    global ns node_of host_of app_of node_of_agent
    set agent [new Agent/TCP/$kind]
    set host [dict get $host_of $node]
    foreach {name setting} [list segsize_ 1448 segsperack_ 2 interval_ 0.04 nodelay_ true ts_option_size_ 12 \
            tcpip_base_hdr_size_ 54 timestamps_ true windowInit_ [value $host initcwnd] windowInitOption_ 1 \
            window_ [expr {[value $host rcvbuf] / 1448}] minrto_ 0.2 tcpTick_ 0.001 rtxcur_init_ 1 \
            slow_start_restart_ [expr {[value $host restart_after_idle] ? "true" : "false"}]] {
        $agent set $name $setting
    }
    $ns attach-agent [dict get $node_of $node] $agent
    set app [new Replayed]
    $app attach-agent $agent
    $app start
    set app_of($agent) $app
    set node_of_agent($agent) $node
    return $agent
}

# Nothing tells that a connection is established but the number of the byte that was acknowledged.
proc wait_connected {a started} {
    global ns tcp poll_share state ended
    if {$ended || $state($a) ne "connecting"} {
        return
    }
    if {[$tcp($a) set ack_] < 0} {
        set taken_s [expr {([now_us] - $started) / 1e6}]
        at_s [expr {[$ns now] + max(0.0002, $poll_share * $taken_s)}] [list wait_connected $a $started]
        return
    }
    established $a [now_us]
}

proc established {a when_us} {
    global ns record state peer_of source_of source_order
    set record($a,connected) $when_us
    set state($a) data
    go_on $a
    # the acceptor knows when the acknowledgement, or the data with it, has come: half a round trip later at the earliest
    if {[connected_two_way $a]} {
        set half_s [expr {[value $source_order([lindex $source_of($a) 0]) base_rtt_us] / 2e6}]
        at_s [expr {[$ns now] + $half_s}] [list wait_accepted $peer_of($a) [now_us]]
    }
}

# First data of an initiator have come: it was established, and had sent them, half a round trip ago at the latest.
proc established_before {a} {
    global record state sent column source_of source_order
    lassign $source_of($a) source side index
    set latest_us [expr {[now_us] - [value $source_order($source) base_rtt_us] / 2}]
    if {$state($a) eq "connecting"} {
        established $a $latest_us
    }
    set first $source,$side,[lindex $column($source,$side,first) $index]
    set record($a,connected) [expr {min($record($a,connected), $latest_us)}]
    set sent($first) [expr {min($sent($first), $latest_us)}]
}

proc wait_accepted {b since} {
    global ns tcp state got poll_share ended
    if {$ended || $state($b) ne "connecting"} {
        return
    }
    if {[$tcp($b) set ack_] < 0 && $got($b) == 0} {
        set taken_s [expr {([now_us] - $since) / 1e6}]
        at_s [expr {[$ns now] + max(0.0002, $poll_share * $taken_s)}] [list wait_accepted $b $since]
        return
    }
    accepted $b
}

proc accepted {b} {
    global state ended
    if {!$ended && $state($b) eq "connecting"} {
        set state($b) data
        go_on $b
    }
}

proc connected_two_way {end} {
    global source_of source_order
    return [is_two_way [value $source_order([lindex $source_of($end) 0]) agent]]
}

# The previous op is over, or data came: do what is due now.
proc go_on {end} {
    global op last_op got state column source_of ns
    lassign $source_of($end) source side index
    while {$op($end) < $last_op($end)} {
        if {[lindex $column($source,$side,need) $op($end)] > $got($end)} {
            set state($end) data
            return
        }
        set wait [lindex $column($source,$side,wait) $op($end)]
        if {$wait} {
            set state($end) timer
            at_s [expr {[$ns now] + $wait / 1e6}] [list time_is_up $end]
            return
        }
        begin_op $end
    }
    set state($end) close
    close_if_done $end
}

proc time_is_up {end} {
    global state ended
    if {!$ended} {
        begin_op $end
        go_on $end
    }
}

# ns-2's send buffer has no end: what is written is written at once.
proc begin_op {end} {
    global op column source_of tcp sent early
    lassign $source_of($end) source side index
    set sent($source,$side,$op($end)) [now_us]
    set bytes [lindex $column($source,$side,bytes) $op($end)]
    if {[info exists early($end)] && $early($end)} {
        set early($end) 0
    } elseif {$bytes} {
        if {[connected_two_way $end]} {
            $tcp($end) advance-bytes $bytes
        } else {
            write_packets $end $bytes data
        }
    }
    incr op($end)
}

proc received {end bytes} {
    global got mark expected peer_op peer_last delivered column source_of peer_of state ended
    if {$ended} {
        return
    }
    if {$state($end) eq "connecting"} {
        set state($end) data
    }
    lassign $source_of($end) source side index
    if {$side eq "a" && $got($end) == 0} {
        established_before $peer_of($end)
    }
    set peer [expr {$side eq "i" ? "a" : "i"}]
    set got($end) [expr {min($got($end) + $bytes, $expected($end))}]
    while {$mark($end) >= 0 && $got($end) >= $mark($end)} {
        set delivered($source,$side,$peer_op($end)) [now_us]
        incr peer_op($end)
        set more [expr {$peer_op($end) < $peer_last($end) ? [lindex $column($source,$peer,bytes) $peer_op($end)] : 0}]
        set mark($end) [expr {$more ? $mark($end) + $more : -1}]
    }
    if {$state($end) eq "data"} {
        go_on $end
    } elseif {$state($end) eq "close"} {
        close_if_done $end
    }
}

# A two-way agent that gets a FIN closes, whatever it still had to send: the FIN waits until both programs are over.
proc close_if_done {end} {
    global state got expected peer_of tcp closing
    set other $peer_of($end)
    foreach one [list $end $other] {
        if {$state($one) ne "close" || $got($one) != $expected($one)} {
            return
        }
    }
    # the side whose program ends with a FIN
    set closer [expr {[has_fin $end] ? $end : $other}]
    if {![info exists closing($closer)]} {
        set closing($closer) 1
        note_over $closer
        if {[connected_two_way $closer]} {
            $tcp($closer) close
        } else {
            write_packets $closer 0 fin
        }
    }
}

proc has_fin {end} {
    global column source_of last_op
    lassign $source_of($end) source side index
    set last [lindex $column($source,$side,bytes) $last_op($end)-1]
    return [expr {$last_op($end) > [lindex $column($source,$side,first) $index] && $last == 0}]
}

proc note_over {end} {
    global status record
    set status($end) 2
    set record($end,ended) [now_us]
}

# One side's agent has closed. When both have, they may be used again, in a while: stray copies may be on their way.
proc closed {end} {
    global ns peer_of status record tcp closing active ended source_order source_of idle
    set other $peer_of($end)
    if {$ended || ![info exists active($end)]} {
        return
    }
    if {$status($end) != 2} {
        note_over $end
    }
    unset active($end)
    if {![info exists active($other)]} {
        lassign $source_of($end) source side index
        set order $source_order($source)
        set pair [expr {$side eq "i" ? [list $tcp($end) $tcp($other)] : [list $tcp($other) $tcp($end)]}]
        at_s [expr {[$ns now] + 2}] [list use_again [value $order initiator] [value $order acceptor] \
            [value $order agent] $pair]
    }
}

proc use_again {from to kind pair} {
    global idle
    if {[is_two_way $kind] || ([one_way_is_over [lindex $pair 0]] && [one_way_is_over [lindex $pair 1]])} {
        lappend idle($from,$to,$kind) $pair
    }
}

set ended 0

proc end_sources {} {
    global sources ended
    set ended 1
    foreach source $sources {
        write_records $source
    }
}

# The columns of traffic/replay/records.py, those of the initiator and those of the acceptor.
proc write_records {source} {
    global column source_order record status got sent delivered
    set n [llength $column($source,start_us)]
    foreach {side role peer} {i initiator a a acceptor i} {
        foreach name {start connected ended status got} {
            set columns($name) {}
        }
        for {set index 0} {$index < $n} {incr index} {
            set end $source.$index.$side
            foreach name {start connected ended} {
                lappend columns($name) [expr {[info exists record($end,$name)] ? $record($end,$name) : -1}]
            }
            lappend columns(status) [expr {[info exists status($end)] ? $status($end) : 0}]
            lappend columns(got) [expr {[info exists got($end)] ? $got($end) : 0}]
        }
        foreach {name table of} [list sent sent $side delivered delivered $peer] {
            set columns($name) {}
            set ops [llength $column($source,$of,bytes)]
            for {set op 0} {$op < $ops} {incr op} {
                set key $source,$side,$op
                lappend columns($name) [expr {[info exists ${table}($key)] ? [set ${table}($key)] : -1}]
            }
        }
        set file [open [value $source_order($source) output].$role.columns wb]
        foreach name {start connected ended status got sent delivered} {
            puts -nonewline $file [binary format w* $columns($name)]
        }
        close $file
    }
}
