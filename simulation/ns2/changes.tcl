# SPDX-License-Identifier: GPL-2.0-only
# Links that change during a run: orders `change` say all that is so of a link from an instant on. Each leaves a row.

# A delay that changes is an object of its own behind the wire, since ns-2 lets packets of a shorter delay overtake, or keeps
# them a transmission time apart for ever. It takes no time to send, so that what would overtake arrives with the one before.
proc delay_apart {order} {
    global ns node_of link_of
    set name [subject $order]
    set link [$ns link [dict get $node_of [value $order from]] [dict get $node_of [value $order to]]]
    set wire [dict get $link_of $name wire]
    set delay [new DelayLink]
    $delay set bandwidth_ 1e15
    $delay set delay_ [$wire set delay_]
    $delay set avoidReordering_ true
    $wire set delay_ 0
    set between [new Queue/DropTail]
    $between set limit_ 1000000
    $wire target $between
    $between target $delay
    $delay target [$link set ttl_]
    dict set link_of $name delay $delay
}

proc begin_changes {orders} {
    global change_file
    set changes [orders_of $orders change]
    if {![llength $changes]} {
        return
    }
    set change_file [open link_changes.csv w]
    puts $change_file t_us,due_us,link,rate_bps,delay_us,loss_percent,limit,up,sent_bytes,sent_packets,arrived_packets,lost_packets
    foreach order $changes {
        at_us [value $order at_us] [list change_link $order]
    }
}

proc change_link {order} {
    global link_of counted change_file
    set name [subject $order]
    set wire [dict get $link_of $name wire]
    set rate_bps [value $order rate_bps]
    # the frame that is being sent goes on at the old rate
    $wire set bandwidth_ $rate_bps
    [dict get $link_of $name delay] set delay_ [expr {[value $order delay_us] / 1e6}]
    if {[value $order limit_changes]} {
        [dict get $link_of $name queue] set limit_ [expr {[value $order limit] + 1}]
    }
    lassign $counted(before,$name) packets0 bytes0
    lassign [counts $name] packets bytes
    set sent [expr {int($packets - $packets0)}]
    puts $change_file [join [list [now_us] [value $order at_us] $name $rate_bps [value $order delay_us] \
        [value $order loss_percent] [value $order limit] [value $order up] [expr {int($bytes - $bytes0)}] $sent $sent 0] ,]
}

proc end_changes {} {
    global change_file
    if {[info exists change_file]} {
        close $change_file
    }
}
