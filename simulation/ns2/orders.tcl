# SPDX-License-Identifier: GPL-2.0-only
# Reading the orders: an order is a list of its first word, the words without a key, and a dictionary.

proc read_orders {path} {
    set file [open $path]
    set orders {}
    while {[gets $file line] >= 0} {
        set words {}
        set values [dict create]
        foreach word [lrange [split $line] 1 end] {
            set equals [string first = $word]
            if {$equals < 0} {
                lappend words $word
            } else {
                dict set values [string range $word 0 $equals-1] [string range $word $equals+1 end]
            }
        }
        if {$line ne ""} {
            lappend orders [list [lindex [split $line] 0] $words $values]
        }
    }
    close $file
    return $orders
}

proc orders_of {orders what} {
    return [lsearch -all -inline -index 0 -exact $orders $what]
}

# The first word without a key: what the order is about.
proc subject {order} {
    return [lindex $order 1 0]
}

proc value {order key {otherwise ""}} {
    if {[dict exists [lindex $order 2] $key]} {
        return [dict get [lindex $order 2] $key]
    }
    if {$otherwise eq ""} {
        error "orders: no $key: $order"
    }
    return $otherwise
}

# Numbers of 8 bytes in a file.
proc int64s_of {path} {
    set file [open $path rb]
    set numbers {}
    binary scan [read $file] w* numbers
    close $file
    return $numbers
}

# Experiment time in microseconds.
proc now_us {} {
    global ns zero
    return [expr {int(floor(([$ns now] - $zero) * 1e6 + 1e-3))}]
}

# Run a command at an instant of simulated time. ns-2 itself says nothing of what goes wrong in an event.
proc at_s {seconds command} {
    global ns
    $ns at $seconds [list run_event $command]
}

proc run_event {command} {
    if {[catch {uplevel #0 $command} problem]} {
        give_up $problem
    }
}

# The last line is what the engine reports.
proc give_up {problem} {
    puts stderr $::errorInfo
    puts stderr "driver.tcl: [lindex [split $problem \n] 0]"
    exit 1
}

# Run a command at an instant of experiment time, or now if it has passed.
proc at_us {us command} {
    global ns zero
    at_s [expr {max([$ns now], $zero + $us / 1e6)}] $command
}
