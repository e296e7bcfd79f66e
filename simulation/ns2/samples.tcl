# SPDX-License-Identifier: GPL-2.0-only
# What is measured while traffic runs: CSV files with the columns of testbed/core/raw_tables.py that ns-2 knows.

proc begin_samples {orders} {
    global links link_of sample_file duration_us
    set bottlenecks {}
    set edges {}
    foreach name $links {
        lappend [expr {[value [dict get $link_of $name order] bottleneck] ? "bottlenecks" : "edges"}] $name
    }
    foreach order [orders_of $orders queue] {
        foreach {file names interval} [list queue $bottlenecks interval_us edge_queue $edges edge_interval_us] {
            set sample_file($file) [open $file.csv w]
            puts $sample_file($file) t_us,link,sent_bytes,sent_packets,drops,backlog_bytes,backlog_packets
            sample 0 [value $order $interval] [list sample_queues $file $names]
        }
    }
    foreach order [orders_of $orders sojourn] {
        set sample_file(sojourn) [open sojourn.csv w]
        puts $sample_file(sojourn) t_us,link,packets,mean_us
        foreach name $bottlenecks {
            [dict get $link_of $name delays] reset
        }
        sample [value $order interval_us] [value $order interval_us] [list sample_delays $bottlenecks [value $order interval_us]]
    }
    foreach order [orders_of $orders tcp_info] {
        set sample_file(tcp_info) [open tcp_info.csv w]
        puts $sample_file(tcp_info) t_us,node,src,sport,dst,dport,state,cca,cwnd,ssthresh,srtt_us,mss,total_retrans,bytes_acked,bytes_sent,bytes_retrans
        sample 0 [value $order interval_us] sample_sockets
    }
}

# Take a sample at an instant and every interval after it.
proc sample {us interval command} {
    global duration_us
    if {$us <= $duration_us} {
        at_us $us [list sample_now $us $interval $command]
    }
}

proc sample_now {us interval command} {
    eval [concat $command $us]
    sample [expr {$us + $interval}] $interval $command
}

proc sample_queues {file names us} {
    global counted sample_file
    foreach name $names {
        lassign $counted(before,$name) packets0 bytes0 drops0
        lassign [counts $name] packets bytes drops waiting size
        puts $sample_file($file) [join [list $us $name [expr {int($bytes - $bytes0)}] [expr {int($packets - $packets0)}] \
            [expr {int($drops - $drops0)}] [expr {int($size)}] $waiting] ,]
    }
}

proc sample_delays {names interval us} {
    global link_of sample_file
    foreach name $names {
        set delays [dict get $link_of $name delays]
        if {[$delays cnt]} {
            puts $sample_file(sojourn) [join [list [expr {$us - $interval}] $name [expr {int([$delays cnt])}] \
                [format %.3f [expr {[$delays mean] * 1e6}]]] ,]
        }
        $delays reset
    }
}

proc sample_sockets {us} {
    global active tcp source_of source_order bulk state segment got peer_of
    foreach end [lsort [array names active]] {
        if {$state($end) eq "connecting"} {
            continue
        }
        lassign $source_of($end) source side index
        set order $source_order($source)
        set here [list [value $order initiator_address] [expr {[value $order first_port] + $index % [value $order ports]}]]
        set there [list [value $order acceptor_address] [value $order port]]
        if {$side eq "i"} {
            sample_socket $us [value $order initiator] $here $there $tcp($end) $order $segment($end) $got($peer_of($end))
        } else {
            sample_socket $us [value $order acceptor] $there $here $tcp($end) $order $segment($end) $got($peer_of($end))
        }
    }
    foreach flow [lsort -integer [array names bulk]] {
        lassign $bulk($flow) order sender
        set packets [expr {max(0, [$sender set ack_])}]
        sample_socket $us [value $order sender] [list [value $order src] [value $order sport]] \
            [list [value $order dst] [value $order dport]] $sender $order [value $order segment_bytes] \
            [expr {$packets * [value $order segment_bytes]}]
    }
}

# acked: bytes that a one-way agent has acknowledged, which counts packets.
proc sample_socket {us node here there agent order segment acked} {
    global sample_file
    if {[is_two_way [value $order agent]]} {
        set acked [expr {max(0, [$agent set ack_])}]
    }
    # in ticks, times 8
    set srtt_us [expr {round([$agent set srtt_] / 8.0 * [$agent set tcpTick_] * 1e6)}]
    puts $sample_file(tcp_info) [join [list $us $node [join $here ,] [join $there ,] ESTAB [value $order cca] \
        [expr {int([$agent set cwnd_])}] [expr {int([$agent set ssthresh_])}] $srtt_us $segment [$agent set nrexmitpack_] \
        $acked [$agent set ndatabytes_] [$agent set nrexmitbytes_]] ,]
}

proc end_samples {} {
    global sample_file
    foreach name [array names sample_file] {
        close $sample_file($name)
    }
    array unset sample_file
}
