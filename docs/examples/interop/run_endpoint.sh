#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Entry of an image as the interop runner starts it: what to do stands in the environment
set -eu
/setup.sh                       # routes to the interop runner's simulator
case "$TESTCASE" in
    handshake|transfer) ;;
    *) echo "no test case $TESTCASE"; exit 127 ;;
esac
mkdir -p "$QLOGDIR"
if [ "$ROLE" = server ]; then
    # shellcheck disable=SC2086    # parameters are words
    exec gtlsserver -q --htdocs=/www --qlog-dir="$QLOGDIR" $SERVER_PARAMS '*' 443 /certs/priv.key /certs/cert.pem
fi
/wait-for-it.sh sim:57832 -s -t 30
host=${REQUESTS#https://}
host=${host%%[:/]*}
# shellcheck disable=SC2086
exec gtlsclient -q --no-quic-dump --no-http-dump --exit-on-all-streams-close --download=/downloads \
    --qlog-dir="$QLOGDIR" $CLIENT_PARAMS "$host" 443 $REQUESTS
