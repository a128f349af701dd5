#!/usr/bin/env bash
# Two network namespaces stand for two hosts, with a link of 1 Gbit/s between them, and mpirun over
# both: two_hosts.sh COMM_MPI_TEST LINK_RANK runs the conformance suite's short part and, where
# SHARDLIGHT_TEST_TIER is full, compares times and bytes with the link (link_rank.cpp). Where
# namespaces are not permitted it says "Skipped" and why, and ends with 0. Nothing of it stays.
set -euo pipefail
suite=$(realpath "$1")
link_rank=$(realpath "$2")
rate_gbit=1

skip() {
  printf 'two_hosts: Skipped\n%s\n' "$1"
  exit 0
}
((EUID == 0)) || skip "network namespaces need root"
for program in ip tc mpirun unshare; do
  command -v "$program" >/dev/null || skip "$program is not installed"
done

job=shardlight$$
folder=$(mktemp -d)
clean_up() {
  ip netns del "${job}a" 2>/dev/null || true
  ip netns del "${job}b" 2>/dev/null || true
  rm -rf "$folder"
}
trap clean_up EXIT

for host in a b; do
  ip netns add "$job$host" 2>"$folder/why" ||
    skip "network namespaces are not permitted: $(<"$folder/why")"
done
# The interfaces have one name on both hosts, as Open MPI is told a name.
ip -n "${job}a" link add link0 type veth peer name link0 netns "${job}b" 2>"$folder/why" ||
  skip "no veth pair: $(<"$folder/why")"
for host in a b; do
  [[ $host == a ]] && address=10.87.0.1 || address=10.87.0.2
  ip -n "$job$host" link set lo up
  ip -n "$job$host" address add "$address/24" dev link0
  ip -n "$job$host" link set link0 up
  ip netns exec "$job$host" tc qdisc add dev link0 root \
    tbf rate "${rate_gbit}gbit" burst 256kb latency 20ms 2>"$folder/why" ||
    skip "no limit on the link: $(<"$folder/why")"
done

# What mpirun calls in place of ssh: the address, then a command. Each host has a name of its own.
cat >"$folder/agent" <<END
#!/usr/bin/env bash
[[ \$1 == 10.87.0.1 ]] && host=a || host=b
shift
exec ip netns exec "$job\$host" unshare --uts sh -c "hostname $job\$host; \$*"
END
chmod +x "$folder/agent"

over_both() {
  local ranks=$1
  shift
  # shellcheck disable=SC2016  # sh expands them
  timeout 120 ip netns exec "${job}a" unshare --uts sh -c 'hostname "$1"; shift; exec "$@"' \
    sh "${job}a" mpirun --allow-run-as-root --oversubscribe --bind-to none \
    --mca plm_rsh_agent "$folder/agent" --mca btl tcp,self --mca btl_tcp_if_include link0 \
    --mca oob_tcp_if_include link0 --mca orte_tmpdir_base "$folder" \
    -H "10.87.0.1:$((ranks / 2)),10.87.0.2:$((ranks / 2))" -n "$ranks" "$@"
}

over_both 4 "$suite" '--gtest_filter=Worlds/*-*Training*:*Broadcast*:*Large*' --gtest_brief=1
[[ ${SHARDLIGHT_TEST_TIER:-} == full ]] || exit 0
# The link's limit is meant, not that of processors which other work shares.
ahead=()
chrt --fifo 10 true 2>/dev/null && ahead=(chrt --fifo 10)
over_both 2 "${ahead[@]}" "$link_rank" link0 "$((rate_gbit * 125000000))"
