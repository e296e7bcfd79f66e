# SPDX-License-Identifier: GPL-2.0-only
# Links that change during a run: orders `change` say all that is so of a link from an instant on. Each leaves a row.

proc begin_changes {orders} {
    global ns change_file delay_of
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
    set_delay $name $wire [expr {[value $order delay_us] / 1e6}] [expr {54 * 8.0 / $rate_bps}]
    if {[value $order limit_changes]} {
        [dict get $link_of $name queue] set limit_ [expr {[value $order limit] + 1}]
    }
    lassign $counted(before,$name) packets0 bytes0
    lassign [counts $name] packets bytes
    set sent [expr {int($packets - $packets0)}]
    puts $change_file [join [list [now_us] [value $order at_us] $name $rate_bps [value $order delay_us] \
        [value $order loss_percent] [value $order limit] [value $order up] [expr {int($bytes - $bytes0)}] $sent $sent 0] ,]
}

# Nothing overtakes what is on the wire: a delay becomes less as fast as time passes, in steps of the shortest frame.
proc set_delay {name wire target_s step_s} {
    global delay_change
    incr delay_change($name)
    if {$target_s >= [$wire set delay_]} {
        $wire set delay_ $target_s
    } else {
        lower_delay $name $wire $target_s $step_s $delay_change($name)
    }
}

proc lower_delay {name wire target_s step_s change} {
    global ns delay_change
    if {$delay_change($name) == $change && [$wire set delay_] > $target_s} {
        $wire set delay_ [expr {max($target_s, [$wire set delay_] - $step_s)}]
        at_s [expr {[$ns now] + $step_s}] [list lower_delay $name $wire $target_s $step_s $change]
    }
}

proc end_changes {} {
    global change_file
    if {[info exists change_file]} {
        close $change_file
    }
}
