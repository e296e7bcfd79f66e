# SPDX-License-Identifier: GPL-2.0-only
# One run in ns-2: `ns driver.tcl ORDERS` carries out what testbed/engines/ns2 wrote, in the current folder.
#
# It says how far it is on standard output (`t MICROSECONDS`). It leaves checks.json, counters.json, flows.json, CSV
# files, and the columns of both ends of every Tmix source, as the ns-3 driver does.
#
# Tmix is replayed here, op by op as in traffic/replay/connection.py, over ns-2's two-way TCP (FullTcp), whose
# connections are reset and used again: making an agent takes milliseconds.

set folder [file dirname [info script]]
foreach part {orders network replay one_way flows changes measure samples} {
    source [file join $folder $part.tcl]
}

proc main {path} {
    global ns zero duration_us drain_s
    set orders [read_orders $path]
    set run [lindex [orders_of $orders run] 0]
    ns-random [value $run seed]
    set duration_us [value $run duration_us]
    set drain_s 10
    build_network $orders
    puts "phase checks"
    flush stdout
    # everything else follows in simulated time: measurements, traffic, the end
    at_s 0.0 [list measure_next [measurements $orders] $orders]
    $ns run
}

# The network was measured: traffic begins at a whole second.
proc begin_traffic {orders} {
    global ns zero duration_us drain_s
    set zero [expr {ceil([$ns now]) + 1}]
    note_counters before
    begin_sources $orders
    begin_flows $orders
    begin_changes $orders
    begin_samples $orders
    every_second 0
    at_s [expr {$zero + $duration_us / 1e6 + 1e-9}] end_traffic
    at_s [expr {$zero + $duration_us / 1e6 + $drain_s}] finish
}

proc every_second {second} {
    global ns zero duration_us
    puts "t ${second}000000"
    flush stdout
    if {($second + 1) * 1000000 <= $duration_us} {
        at_s [expr {$zero + $second + 1}] [list every_second [expr {$second + 1}]]
    }
}

proc end_traffic {} {
    note_counters end
    end_sources
    end_samples
    end_changes
    silence_hosts
}

proc finish {} {
    note_counters drained
    write_counters
    write_flows
    puts "done"
    flush stdout
    exit 0
}

if {[catch {main [lindex $argv 0]} problem]} {
    give_up $problem
}
