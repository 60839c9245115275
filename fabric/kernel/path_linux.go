package kernel

import (
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel/internal/rtnl"
)

// fiveTuple is what a switch hashes.
type fiveTuple struct {
	src, dst     netip.Addr
	proto        uint8
	sport, dport uint16
}

// Path asks the kernel which path the packets of a flow take. The answer holds for
// the whole flow: switches hash addresses, protocol and ports, nothing else. Only
// switches with several next hops are asked, so it costs at most two requests of
// about 7 us.
func (f *Fabric) Path(fl Flow) (fabric.Path, error) {
	paths, tuple, err := f.resolve(fl)
	if err != nil {
		return nil, err
	}
	slots, err := f.slots(paths, []fiveTuple{tuple}, f.nextPorts)
	if err != nil {
		return nil, err
	}
	return paths[slots[0]], nil
}

// resolve finds the equal-cost paths of a flow and its addresses.
func (f *Fabric) resolve(fl Flow) ([]fabric.Path, fiveTuple, error) {
	for _, id := range []fabric.NodeID{fl.Src, fl.Dst} {
		if _, err := f.at(id); err != nil {
			return nil, fiveTuple{}, err
		}
	}
	paths := f.plan.NICPaths(fl.Src, fl.Dst, fl.SrcNIC, fl.DstNIC)
	src, dst := &f.plan.Nodes[fl.Src], &f.plan.Nodes[fl.Dst]
	if len(paths) == 0 {
		return nil, fiveTuple{}, fmt.Errorf("no path from %s NIC %d to %s NIC %d", src.Name, fl.SrcNIC, dst.Name, fl.DstNIC)
	}
	if fl.Proto == 0 {
		fl.Proto = unix.IPPROTO_TCP
	}
	return paths, fiveTuple{src: src.Addrs[fl.SrcNIC], dst: dst.Addrs[fl.DstNIC], proto: fl.Proto, sport: fl.SrcPort, dport: fl.DstPort}, nil
}

// PathPorts finds source ports by path: ports[k] holds want ports, ascending, from
// which a flow takes path k of plan.NICPaths. Ports are tried upwards from
// first.SrcPort. It is an error if 65535 is reached before every path has its ports.
// Paths are computed where the kernel is known to choose as computed, and looked up in
// the kernel elsewhere.
func (f *Fabric) PathPorts(first Flow, want int) (ports [][]uint16, err error) {
	paths, tuple, err := f.resolve(first)
	if err != nil {
		return nil, err
	}
	ports = make([][]uint16, len(paths))
	missing := want * len(paths)
	for next := int(max(first.SrcPort, 1)); missing > 0; {
		flows := make([]fiveTuple, 0, 2*missing)
		for ; len(flows) < 2*missing && next <= 65535; next++ {
			tuple.sport = uint16(next)
			flows = append(flows, tuple)
		}
		if len(flows) == 0 {
			return nil, fmt.Errorf("source ports %d..65535 from %s to %s port %d: %d paths lack %d of %d ports each: begin lower or ask for fewer",
				first.SrcPort, f.plan.Nodes[first.Src].Name, f.plan.Nodes[first.Dst].Name, first.DstPort, len(paths), missing, want)
		}
		slots, err := f.slots(paths, flows, f.foresee)
		if err != nil {
			return nil, err
		}
		for i, slot := range slots {
			if len(ports[slot]) < want {
				ports[slot] = append(ports[slot], flows[i].sport)
				missing--
			}
		}
	}
	return ports, nil
}

// Slots finds which of plan.NICPaths a flow takes to each of the given destination ports,
// in their order. It computes and looks up as PathPorts does, so many flows cost little.
func (f *Fabric) Slots(fl Flow, dstPorts []uint16) ([]int, error) {
	paths, tuple, err := f.resolve(fl)
	if err != nil {
		return nil, err
	}
	flows := make([]fiveTuple, len(dstPorts))
	for i, port := range dstPorts {
		tuple.dport = port
		flows[i] = tuple
	}
	return f.slots(paths, flows, f.foresee)
}

// slots finds for each flow between one pair of NICs which of paths it takes.
// It descends the tree of choices: all flows start with all paths, and each
// switch that has several next hops splits them.
func (f *Fabric) slots(paths []fabric.Path, flows []fiveTuple, ask oracle) ([]int, error) {
	slots := make([]int, len(flows))
	if len(paths) == 1 {
		return slots, nil
	}
	all := make([]int, len(flows))
	for i := range all {
		all[i] = i
	}
	candidates := make([]int, len(paths))
	for i := range candidates {
		candidates[i] = i
	}
	return slots, f.choose(paths, candidates, flows, all, 1, slots, ask)
}

// oracle says by which port the node of port in sends each of the flows that arrive there.
type oracle func(in *fabric.Port, flows []fiveTuple, which []int) ([]int, error)

// choose determines which candidate path each of the flows takes, from hop on.
func (f *Fabric) choose(paths []fabric.Path, candidates []int, flows []fiveTuple, which []int, hop int, slots []int, ask oracle) error {
	if len(candidates) == 1 || len(which) == 0 {
		for _, i := range which {
			slots[i] = candidates[0]
		}
		return nil
	}
	byPort := map[int][]int{} // egress port at this hop: candidates that leave there
	var order []int
	for _, c := range candidates {
		port := f.plan.Egress(paths[c][hop]).Index
		if byPort[port] == nil {
			order = append(order, port)
		}
		byPort[port] = append(byPort[port], c)
	}
	if len(order) == 1 {
		return f.choose(paths, candidates, flows, which, hop+1, slots, ask)
	}
	in := f.plan.Ingress(paths[candidates[0]][hop-1])
	chosen, err := ask(in, flows, which)
	if err != nil {
		return err
	}
	split := map[int][]int{}
	for k, i := range which {
		if byPort[chosen[k]] == nil {
			return fmt.Errorf("%s routes %s to %s out of port %d, which no equal-cost path has: the lab's routes were changed",
				f.ns[in.Node].name, flows[i].src, flows[i].dst, chosen[k])
		}
		split[chosen[k]] = append(split[chosen[k]], i)
	}
	for _, port := range order {
		if err := f.choose(paths, byPort[port], flows, split[port], hop+1, slots, ask); err != nil {
			return err
		}
	}
	return nil
}

// nextPorts asks the kernel where the node of port in would send flows that arrive there.
func (f *Fabric) nextPorts(in *fabric.Port, flows []fiveTuple, which []int) ([]int, error) {
	var b rtnl.Batch
	iif := ifindexOf(f.plan, in)
	for _, i := range which {
		fl := &flows[i]
		b.Begin(unix.RTM_GETROUTE, 0, "route", fl.dst.String())
		b.U8(unix.AF_INET, 32, 32, 0, 0, 0, 0, 0)
		b.U32(0)
		dst, src := fl.dst.As4(), fl.src.As4()
		b.Attr(unix.RTA_DST, dst[:])
		b.Attr(unix.RTA_SRC, src[:])
		b.AttrU32(unix.RTA_IIF, iif)
		b.AttrU8(unix.RTA_IP_PROTO, fl.proto)
		b.AttrBE16(unix.RTA_SPORT, fl.sport)
		b.AttrBE16(unix.RTA_DPORT, fl.dport)
	}
	ports := make([]int, len(which))
	err := f.ns[in.Node].conn.Query(&b, func(k int, m rtnl.Message) {
		ports[k] = portOf(rtnl.U32(rtnl.Find(rtnl.Skip(m.Payload, unix.SizeofRtMsg), unix.RTA_OIF), 0))
	})
	if err != nil {
		return nil, fmt.Errorf("namespace %s: %w", f.ns[in.Node].name, err)
	}
	return ports, nil
}
