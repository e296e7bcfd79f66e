#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# A git tree with ten commits of a module, for docs/howto/bisect.md: the seventh makes its window grow at a twentieth of Reno's
# pace, the fifth does not compile, and the others change nothing but words.
# Usage: bash docs/examples/bisect-history.sh FOLDER
set -eu
module=$(dirname "$(realpath "$0")")/tcp_mine.c
git init --quiet --initial-branch=main "$1"
cd "$1"
mkdir mine
cp "$module" mine/
echo 'obj-m := tcp_mine.o' > mine/Kbuild

commit() {
    echo "$1" >> mine/NEWS.md
    git add .
    git -c user.name=Somebody -c user.email=somebody@example.org commit --quiet --message "$1"
}

commit "First version"
commit "Say where it comes from"
commit "Spelling"
commit "Another licence header was considered"
sed -i 's/acked/ackd/; s/return max(/return maximum(/' mine/tcp_mine.c
commit "Half a clean-up"
cp "$module" mine/
commit "Take the clean-up back"
sed -i 's/= tcp_reno_cong_avoid/= mine_cong_avoid/
/^static struct tcp_congestion_ops/i\
static void mine_cong_avoid(struct sock *sk, u32 ack, u32 acked)\
{\
\tstruct tcp_sock *tp = tcp_sk(sk);\
\
\tif (tcp_in_slow_start(tp))\
\t\tacked = tcp_slow_start(tp, acked);\
\tif (acked)\
\t\ttcp_cong_avoid_ai(tp, 20 * tcp_snd_cwnd(tp), acked);\
}\
' mine/tcp_mine.c
commit "Be gentle"
commit "Thanks"
commit "More thanks"
commit "Release"
