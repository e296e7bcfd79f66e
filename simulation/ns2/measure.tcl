# SPDX-License-Identifier: GPL-2.0-only
# The idle network, measured before any traffic: echoes over paths, then bottlenecks overloaded one by one.

Class Echoed -superclass Application
Echoed instproc recv bytes {
    $self instvar reply
    eval $reply
}

# bytes of an echo on the link, and of a full frame
set echo_bytes 98
set frame_bytes 1514
set measured_paths {}
set measured_links {}

proc measurements {orders} {
    return [concat [orders_of $orders echo] [orders_of $orders overload]]
}

proc measure_next {left orders} {
    if {![llength $left]} {
        write_checks
        begin_traffic $orders
        return
    }
    set rest [list measure_next [lrange $left 1 end] $orders]
    set order [lindex $left 0]
    if {[lindex $order 0] eq "echo"} {
        measure_echo $order $rest
    } else {
        measure_overload $order $rest
    }
}

proc measure_echo {order rest} {
    global ns echo_bytes echo_began
    set there [udp_agent [value $order from] $echo_bytes]
    set back [udp_agent [value $order to] $echo_bytes]
    foreach {sender node reply} [list $there [value $order to] [list $back send $echo_bytes] \
            $back [value $order from] [list echo_answered [value $order number] $rest]] {
        set sink [sink_agent $node]
        $ns connect $sender $sink
        set app [new Echoed]
        $app set reply $reply
        $app attach-agent $sink
        $app start
    }
    set echo_began [$ns now]
    $there send $echo_bytes
}

proc echo_answered {number rest} {
    global ns echo_began measured_paths
    lappend measured_paths "{\"number\": $number, \"measured_rtt_ns\": [expr {round(([$ns now] - $echo_began) * 1e9)}]}"
    at_s [expr {[$ns now] + 0.001}] $rest
}

proc measure_overload {order rest} {
    global ns frame_bytes blasting
    set blasting 1
    foreach {host target address} [lrange [lindex $order 1] 1 end] {
        set sender [udp_agent $host $frame_bytes]
        set sink [sink_agent $target]
        $ns connect $sender $sink
        blast $sender [expr {[value $order interval_ns] / 1e9}]
    }
    set name [subject $order]
    set fill [value $order fill_s]
    set window [value $order window_s]
    set before [lindex [counts $name] 2]
    at_s [expr {[$ns now] + $fill}] [list overload_window $name $before $window [value $order drain_s] $rest]
}

proc blast {sender gap} {
    global ns blasting frame_bytes
    if {$blasting} {
        $sender send $frame_bytes
        at_s [expr {[$ns now] + $gap}] [list blast $sender $gap]
    }
}

proc overload_window {name before window drain rest} {
    global ns longest
    set longest [list 0 0]
    set start [counts $name]
    for {set i 1} {$i <= 50} {incr i} {
        at_s [expr {[$ns now] + $window * $i / 50}] [list overload_look $name]
    }
    at_s [expr {[$ns now] + $window}] [list overload_over $name $before $start $window $drain $rest]
}

proc overload_look {name} {
    global longest
    lassign [counts $name] packets bytes drops waiting size
    set longest [list [expr {max([lindex $longest 0], $waiting)}] [expr {max([lindex $longest 1], $size)}]]
}

proc overload_over {name before start window drain rest} {
    global ns blasting
    set blasting 0
    set end [counts $name]
    at_s [expr {[$ns now] + $drain}] [list overload_drained $name $before $start $end $window $rest]
}

proc overload_drained {name before start end window rest} {
    global measured_links longest
    set bits [expr {8 * ([lindex $end 1] - [lindex $start 1])}]
    lappend measured_links "{\"link\": \"$name\", \"measured_bps\": [expr {$bits / $window}],\
        \"window_packets\": [expr {int([lindex $end 0] - [lindex $start 0])}],\
        \"longest_queue_packets\": [lindex $longest 0], \"longest_queue_bytes\": [lindex $longest 1],\
        \"dropped_packets\": [expr {int([lindex [counts $name] 2] - $before)}]}"
    eval $rest
}

proc write_checks {} {
    global measured_paths measured_links
    set file [open checks.json w]
    puts $file "{\"paths\": \[[join $measured_paths ",\n "]\],\n\"bottlenecks\": \[[join $measured_links ",\n "]\]}"
    close $file
}
