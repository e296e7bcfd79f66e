# SPDX-License-Identifier: GPL-2.0-only
# Nodes, links and their queues. Packet sizes are those of Ethernet frames: 54 bytes of headers, 12 of time stamps.

set ns [new Simulator]
set node_of [dict create]
set link_of [dict create]
set links {}

proc build_network {orders} {
    global ns node_of host_of addresses link_of links from_of to_of
    foreach order [orders_of $orders node] {
        dict set node_of [subject $order] [$ns node]
        if {[value $order host]} {
            dict set host_of [subject $order] $order
        }
    }
    foreach order [orders_of $orders link] {
        set name [subject $order]
        set from [dict get $node_of [value $order from]]
        set to [dict get $node_of [value $order to]]
        $ns simplex-link $from $to [value $order rate_bps] [expr {[value $order delay_us] / 1e6}] [queue_kind $order]
        set queue [[$ns link $from $to] queue]
        set_queue $queue $order
        set monitor [$ns monitor-queue $from $to [open /dev/null w]]
        set delays [new Samples]
        $monitor set-delay-samples $delays
        dict set link_of $name [dict create order $order queue $queue wire [[$ns link $from $to] link] \
            delay [[$ns link $from $to] link] monitor $monitor delays $delays]
        lappend links $name
        if {[lsearch -glob [orders_of $orders change] "change $name *"] >= 0} {
            delay_apart $order
        }
    }
}

proc queue_kind {order} {
    return [dict get {pfifo DropTail bfifo DropTail red RED} [value $order queue]]
}

# ns-2's DropTail drops when the packet that comes would be the limit's: one more is asked for.
proc set_queue {queue order} {
    set limit [value $order limit]
    switch [value $order queue] {
        pfifo {
            $queue set limit_ [expr {$limit + 1}]
        }
        bfifo {
            $queue set queue_in_bytes_ true
            $queue set mean_pktsize_ 1
            $queue set limit_ [expr {$limit + 1}]
        }
        red {
            # As Linux's: averages and limit in bytes, whatever a packet's size; drops 1 to 1/p packets apart; an empty
            # queue does not let the average fall. Its limit is compared before a packet is counted.
            foreach {name setting} [list queue_in_bytes_ true mean_pktsize_ 1 bytes_ false wait_ false gentle_ false \
                    limit_ [expr {$limit - 1514 + 1}] thresh_ [value $order min] maxthresh_ [value $order max] \
                    q_weight_ [value $order weight] linterm_ [expr {1 / double([value $order probability])}] \
                    cautious_ 3 idle_pktsize_ 2000000000 adaptive_ [value $order adaptive 0] bottom_ 0.01 \
                    drop_tail_ true] {
                $queue set $name $setting
            }
        }
    }
}

# What a link's monitor has counted: departed packets and bytes, dropped packets, waiting packets and bytes.
proc counts {name} {
    global link_of
    set monitor [dict get $link_of $name monitor]
    return [list [$monitor set pdepartures_] [$monitor set bdepartures_] [$monitor set pdrops_] [$monitor set pkts_] \
        [$monitor set size_]]
}

proc note_counters {when} {
    global links counted
    foreach name $links {
        set counted($when,$name) [counts $name]
    }
}

# Hosts send nothing from now on, so that the network runs empty. What they would have sent is not counted.
proc silence_hosts {} {
    global links link_of host_of
    foreach name $links {
        if {[dict exists $host_of [value [dict get $link_of $name order] from]]} {
            [dict get $link_of $name queue] set limit_ 0
        }
    }
}

proc write_counters {} {
    global links link_of counted host_of
    set file [open counters.json w]
    set parts {}
    foreach {key when} {at_end end drained drained} {
        set lines {}
        foreach name $links {
            set order [dict get $link_of $name order]
            lassign $counted(before,$name) packets0 bytes0 drops0
            lassign $counted($when,$name) packets bytes drops waiting
            if {[dict exists $host_of [value $order from]]} {
                set drops [lindex $counted(end,$name) 2]
            }
            set sent [expr {int($packets - $packets0)}]
            set line "\"$name\": {\"from\": \"[value $order from]\", \"to\": \"[value $order to]\""
            foreach {what number} [list sent_packets $sent sent_bytes [expr {int($bytes - $bytes0)}] \
                    dropped_packets [expr {int($drops - $drops0)}] queued_packets $waiting device_tx_packets $sent \
                    device_rx_packets $sent wire_delivered_packets $sent wire_dropped_packets 0 \
                    chosen_dropped_packets 0 wire_queued_packets 0] {
                append line ", \"$what\": $number"
            }
            lappend lines "$line}"
        }
        lappend parts "\"$key\": {[join $lines ",\n "]}"
    }
    puts $file "{[join $parts ",\n"]}"
    close $file
}
