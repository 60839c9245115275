# shellcheck shell=dash
# Runs inside the virtual machine: a lab's whole life on a kernel with modules and
# without a hash seed. Prints what it checks, and stops at the first fault.
fail() {
  echo "FAILED: $*"
  exit 1
}
has() { grep -q -- "$1" "$2" || fail "$2 does not say: $1"; }
host() { { ip addr; ip route; ls /run/netns 2>/dev/null; } | grep -v -e valid_lft; }

netkvlab version || fail "the binary does not run"
netkvlab validate tiny.yaml >/dev/null || fail "the scenario is not valid here"

echo "== doctor: names the missing hash seed"
netkvlab doctor >doctor.txt
cat doctor.txt
grep -qi 'seed' doctor.txt || fail "doctor says nothing of the hash seed"
for feature in netem red flow-queues dctcp; do
  has "^$feature  *works" doctor.txt
done

echo "== kernel: latency, marks, and queues as long as planned"
NETKVLAB_MUST=netem,red,flow-queues,dctcp ./kernel.test -test.v -test.timeout 200s \
  -test.run '^Test(EveryProbeSettles|AnotherDecoderReadsTheSameTree|GoTCCannotMakeRED|ARoundTripTakesTwiceItsTiersLatency|ALoneTransferOverAWireTakesItsLatencyMore|AQueueBehindADelayIsAsLongAsPlanned|ALabSaysWhetherItHasLatency|TwoDCTCPFlowsKeepTheQueueAtItsThreshold|VerifyKnowsMarks)$' >kernel.txt 2>&1
failed=$?
grep -v -e '^=== ' kernel.txt
[ $failed -eq 0 ] || fail "kernel tests"
grep -q -e '^--- SKIP' kernel.txt && fail "a kernel test was skipped"
passed=$(grep -c '^--- PASS' kernel.txt)
[ "$passed" -eq 9 ] || fail "9 kernel tests were to pass, $passed did"

host >before.txt
echo "== up -d, run, down"
netkvlab up -d tiny.yaml || fail "up"
netkvlab inspect vm-tiny >/dev/null || fail "inspect"
netkvlab run vm-tiny --out run || fail "run"
netkvlab down vm-tiny || fail "down"
host >after.txt
diff before.txt after.txt || fail "the host is not as it was"

echo "== every request came to an end, and says how"
grep '"world":"packet"' run/requests.jsonl >packet.jsonl
lines=$(wc -l <packet.jsonl)
[ "$lines" -eq 6 ] || fail "6 requests were sent, $lines are written down"
completed=$(grep -c '"status":"completed"' packet.jsonl)
[ "$completed" -eq 6 ] || fail "only $completed of 6 requests completed"

echo "== steps of the wall clock leave the figures alone"
netkvlab up tiny.yaml --worlds packet --out stepped &
up=$!
sleep 5
date -s '2031-01-01 00:00:00' >/dev/null
sleep 1
date -s '2020-01-01 00:00:00' >/dev/null
wait "$up" || fail "up while the clock was stepped"
completed=$(grep -c '"status":"completed"' stepped/requests.jsonl)
[ "$completed" -eq 6 ] || fail "only $completed of 6 requests completed while the clock was stepped"
if grep -E '"[a-z_]*_ms":(-|[0-9]{6,})' stepped/requests.jsonl; then
  fail "a time is negative or absurd"
fi

echo "== a lab with latency whose queues mark says so, and completes every request"
netkvlab up tiny.yaml --worlds packet --out far --set topology.latency.tier1=2ms --set topology.latency.tier2=4ms \
  --set topology.latency.tier3=8ms --set transfer.congestionControl=dctcp || fail "up with latency and dctcp"
has 'link latency is emulated, one way none at tier 0, 2ms at tier 1, 4ms at tier 2, 8ms at tier 3' far/summary.json
has 'switch ports mark packets (ECN) from a backlog of' far/summary.json
marks=$(awk -F , 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == "marks") column = i }
  NR > 1 { if ($column > most[$5]) most[$5] = $column } END { for (link in most) sum += most[link]; print sum + 0 }' far/links.csv)
[ "$marks" -gt 0 ] || fail "no packet was marked"
completed=$(grep -c '"status":"completed"' far/requests.jsonl)
[ "$completed" -eq 6 ] || fail "only $completed of 6 requests completed over links with latency"

echo "== a lab whose ports serve flows in turn is what was planned, and completes every request"
netkvlab up tiny.yaml --worlds packet --out turns --set topology.buffers.queueing=fair || fail "up with fair queueing"
has 'switch ports serve the flows that wait in them in turn' turns/summary.json
grep -q 'is not what was planned' turns/summary.json && fail "the queues of flows are not what was planned"
completed=$(grep -c '"status":"completed"' turns/requests.jsonl)
[ "$completed" -eq 6 ] || fail "only $completed of 6 requests completed where flows take turns"

echo "== down of what is not there is success"
netkvlab down vm-tiny || fail "second down"
echo "passed"
