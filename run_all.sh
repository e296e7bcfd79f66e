#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Run every scenario, then make one page of all reports: results/index.html.
# Usage: ./run_all.sh [--quick|--full|--smoke] [--list] [--engine NAME] [--seeds N] [--jobs N]     (testbed suite run --help)
#
# Where: in the virtual machine of Vagrantfile on its own kernel, in real time (engine host); beside that machine, if it
# is there, in it (engine vagrant); else on the guest kernel, in virtual time. --engine says otherwise.
set -eu
here=$(dirname "$(readlink -f "$0")")
engine=
verb=run
version=--quick
purposes="run kernel"
for word; do
    shift
    case $word in
    --list) verb=list ;;
    --full) version= ;;
    --quick | --smoke) version=$word ;;
    *) set -- "$@" "$word" ;;
    esac
done
case " $* " in
*" --engine"* | *" --help "* | *" -h "*) ;;
*)
    if [ -e /etc/tcp-testbed-vm ]; then
        engine=host
        purposes="run vm"
        echo "run_all: in the virtual machine, on its own kernel (--engine host)" >&2
    elif command -v vagrant >/dev/null && [ -n "$(find "${VAGRANT_DOTFILE_PATH:-$here/.vagrant}" \
        -path '*/machines/default/*/id' 2>/dev/null)" ]; then
        engine=vagrant
        purposes=run
        echo "run_all: in the virtual machine of Vagrantfile (--engine vagrant)" >&2
    fi
    ;;
esac
# shellcheck disable=SC2086  # words
"$here/setup.sh" $purposes
# engine host needs root; in the machine, sudo asks for nothing
as_root=
if [ "$engine" = host ] && [ "$(id -u)" != 0 ]; then
    as_root="sudo --preserve-env=TESTBED_RESULTS,TESTBED_CACHE"
fi
yes=
if [ "$verb" = run ]; then
    yes=--yes                   # whoever starts it knows that it is long
fi
# shellcheck disable=SC2086
exec $as_root "$here/bin/testbed" suite "$verb" all $yes $version ${engine:+--engine "$engine"} "$@"
