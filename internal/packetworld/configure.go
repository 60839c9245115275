package packetworld

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/lab"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/kvagent"
	"github.com/netkvlab/netkvlab/kvagent/control"
	"github.com/netkvlab/netkvlab/scenarios"
)

const (
	// dataPort is where agents accept transfers, on each of their addresses.
	dataPort = 7000
	// firstSourcePort starts the source ports that transfers are sent from.
	firstSourcePort = 10000
	// portsPerPath bounds the connections that a pair may have on one path at once.
	// portLookups bounds the port lookups for the whole lab, at about 12 us each: a lab with
	// many pairs gets fewer ports per path, but enough for two transfers whose streams all
	// draw the same path.
	portsPerPath = 64
	portLookups  = 200_000
	// warmPerPath is how many of these connections are opened before the clock starts.
	warmPerPath = 2
	// warmAtMost bounds the warm connections of a whole lab; the others open when needed.
	warmAtMost = 8192
	// backgroundPortBase starts the source ports of background flows.
	backgroundPortBase = 30000
)

// Agents are the agents of a lab, configured for a cluster.
type Agents struct {
	lab     *lab.Lab
	cluster *trials.Cluster
	configs []*control.ConfigureRequest // of lab.Agents, in their order
	pairs   map[[2]string]bool          // sender and receiver names of explicit flows; nil where there are none
}

// Configure gives every agent its role, its peers and the path table to them, and opens
// the connections that trials will use. The lab's fabric must be that of the cluster's plan.
func Configure(ctx context.Context, l *lab.Lab, c *trials.Cluster) (*Agents, error) {
	all := &Agents{lab: l, cluster: c}
	if c.Flows() {
		load, err := c.Load(c.Scenario.Seeds[0])
		if err != nil {
			return nil, err
		}
		all.pairs = make(map[[2]string]bool, len(load.Flows))
		for _, f := range load.Flows {
			all.pairs[[2]string{f.From, f.To}] = true
		}
	}
	flows, err := all.backgroundFlows()
	if err != nil {
		return nil, err
	}
	if err := all.makeConfigs(ctx, flows); err != nil {
		return nil, err
	}
	if err := all.Reset(ctx); err != nil {
		return nil, err
	}
	if c.Scenario.Transfer.Paths == scenarios.PathsFresh || all.paths()*warmPerPath > warmAtMost {
		return all, nil
	}
	return all, all.each(ctx, func(ctx context.Context, agent *lab.Agent, _ *control.ConfigureRequest) error {
		_, err := agent.Client.Warm(ctx, warmPerPath)
		return err
	})
}

// role is what a node's agent is configured as. Only instances and background hosts have agents.
func (all *Agents) role(n *fabric.Node) control.Role {
	switch {
	case n.Kind == fabric.KindBackground:
		return control.Role_ROLE_BACKGROUND
	case all.cluster.Flows():
		return control.Role_ROLE_ENDPOINT
	case n.Role == fabric.RolePrefill:
		return control.Role_ROLE_PREFILL
	case n.Role == fabric.RoleDecode:
		return control.Role_ROLE_DECODE
	}
	return control.Role_ROLE_UNSPECIFIED // an idle instance
}

// makeConfigs finds the source ports of every agent and writes its configuration.
func (all *Agents) makeConfigs(ctx context.Context, flows map[fabric.NodeID][]*control.BackgroundFlow) error {
	all.configs = make([]*control.ConfigureRequest, len(all.lab.Agents))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range all.lab.Agents {
		g.Go(func() (err error) {
			if err := ctx.Err(); err != nil {
				return err
			}
			a := &all.lab.Agents[i]
			if all.configs[i], err = all.config(a, flows[a.ID]); err != nil {
				return fmt.Errorf("configure %s: %w", a.Node, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// paths counts the paths of all pairs.
func (all *Agents) paths() int {
	n := 0
	for _, c := range all.configs {
		for _, p := range c.Peers {
			for _, nic := range p.Nics {
				n += len(nic.Paths)
			}
		}
	}
	return n
}

// Reset drops what an earlier trial left in the agents: caches, queues, memory. Connections
// stay open.
func (all *Agents) Reset(ctx context.Context) error {
	return all.each(ctx, func(ctx context.Context, a *lab.Agent, c *control.ConfigureRequest) error {
		return a.Client.Configure(ctx, c)
	})
}

// Endpoints makes every instance a plain end of transfers, without an engine, until the
// next Reset. Connections stay open.
func (all *Agents) Endpoints(ctx context.Context) error {
	return all.each(ctx, func(ctx context.Context, a *lab.Agent, c *control.ConfigureRequest) error {
		if all.cluster.Plan.Nodes[a.ID].Kind != fabric.KindInstance {
			return nil
		}
		plain := proto.CloneOf(c)
		plain.Role = control.Role_ROLE_ENDPOINT
		return a.Client.Configure(ctx, plain)
	})
}

func (all *Agents) each(ctx context.Context, do func(context.Context, *lab.Agent, *control.ConfigureRequest) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range all.lab.Agents {
		g.Go(func() error {
			if err := do(ctx, &all.lab.Agents[i], all.configs[i]); err != nil {
				return fmt.Errorf("agent %s: %w", all.lab.Agents[i].Node, err)
			}
			return nil
		})
	}
	return g.Wait()
}

func (all *Agents) config(a *lab.Agent, flows []*control.BackgroundFlow) (*control.ConfigureRequest, error) {
	n, s, scale := &all.cluster.Plan.Nodes[a.ID], all.cluster.Scenario, all.cluster.Plan.Scale.Time
	e, t := s.Engine, s.Transfer
	req := &control.ConfigureRequest{
		Role: all.role(n), Node: n.Name, DataPort: dataPort, TimeScale: scale, Background: flows,
		Engine: &control.EngineConfig{
			PrefillMode: e.Prefill.Mode, PrefillBasePaperNs: int64(e.Prefill.Base),
			PrefillPerTokenPaperNs: e.Prefill.PerTokenNs, PrefillPerTokenSquaredPaperNs: e.Prefill.PerTokenSquaredNs,
			MaxBatch: int32(e.Decode.MaxBatch), MemoryPaperBytes: int64(e.Decode.Memory),
			KvBytesPerTokenPaper: int64(s.Model.KVBytesPerToken()), BlockTokens: int32(e.BlockTokens),
			DecodeBasePaperNs: int64(e.Decode.Base), DecodePerSequencePaperNs: int64(e.Decode.PerSequence),
			DecodePerContextTokenPaperNs: e.Decode.PerContextTokenNs,
		},
		Transfer: &control.TransferConfig{
			ChunkBytes: int32(t.Chunk), Dscp: int32(t.DSCP), CongestionControl: t.CongestionControl,
			Integrity: t.Integrity, Pull: t.Mode == scenarios.ModePull, Fresh: t.Paths == scenarios.PathsFresh,
			SetupPaperNs: int64(t.Setup), TimeoutNs: int64(float64(t.Timeout) * scale),
		},
	}
	if req.Role == control.Role_ROLE_BACKGROUND { // its acknowledgements are background as well
		req.Transfer.Dscp = int32(s.Background.DSCP)
	}
	for _, addr := range n.Addrs {
		req.Addresses = append(req.Addresses, addr.String())
	}
	for _, to := range all.receivers(n) {
		peer, err := all.peer(n, &all.cluster.Plan.Nodes[to])
		if err != nil {
			return nil, err
		}
		req.Peers = append(req.Peers, peer)
	}
	return req, nil
}

// receivers are the nodes that an agent may send to. At an end of explicit flows these are the
// destinations that the scenario gives it.
func (all *Agents) receivers(n *fabric.Node) (out []fabric.NodeID) {
	switch all.role(n) {
	case control.Role_ROLE_PREFILL:
		return all.cluster.Plan.Decode
	case control.Role_ROLE_ENDPOINT:
		for _, id := range trials.Endpoints(all.cluster.Plan) {
			if all.pairs[[2]string{n.Name, all.cluster.Plan.Nodes[id].Name}] {
				out = append(out, id)
			}
		}
	}
	return out
}

func (all *Agents) peer(from, to *fabric.Node) (*control.Peer, error) {
	peer := &control.Peer{Node: to.Name, DataPort: dataPort}
	for nic, addr := range to.Addrs {
		peer.Addresses = append(peer.Addresses, addr.String())
		first := kernel.Flow{Src: from.ID, Dst: to.ID, SrcNIC: nic, DstNIC: nic, SrcPort: firstSourcePort, DstPort: dataPort}
		table, err := all.lab.Fabric.PathPorts(first, all.portsWanted())
		if err != nil {
			return nil, fmt.Errorf("source ports from %s to %s: %w", from.Name, to.Name, err)
		}
		paths := &control.NICPaths{}
		for _, ports := range table {
			row := &control.PathPorts{Ports: make([]uint32, len(ports))}
			for i, p := range ports {
				row.Ports[i] = uint32(p)
			}
			paths.Paths = append(paths.Paths, row)
		}
		peer.Nics = append(peer.Nics, paths)
	}
	return peer, nil
}

// portsWanted is how many source ports each path of each pair gets.
func (all *Agents) portsWanted() int {
	pairs := len(all.pairs)
	if !all.cluster.Flows() {
		pairs = len(all.cluster.Plan.Prefill) * len(all.cluster.Plan.Decode)
	}
	paths := pairs * all.cluster.Plan.PathCount(3) * all.cluster.Scenario.Topology.NICsPerInstance
	return max(2*all.cluster.Scenario.Transfer.Streams, min(portsPerPath, portLookups/max(1, paths)))
}

// backgroundFlows spreads other tenants' traffic over the fabric: Each rack's background
// host sends to its counterpart in the next pod over every core path, at the rate at which
// each core link carries its configured share. It then also sends to the next rack of its
// pod, until the rack uplinks carry their share.
func (all *Agents) backgroundFlows() (map[fabric.NodeID][]*control.BackgroundFlow, error) {
	out := map[fabric.NodeID][]*control.BackgroundFlow{}
	s, plan := all.cluster.Scenario, all.cluster.Plan
	if !s.Background.Enabled() {
		return out, nil
	}
	rates, err := trials.Background(s, plan)
	if err != nil {
		return nil, err
	}
	racks, perPod := plan.Background, s.Topology.RacksPerPod // one host per rack, pod by pod
	for i, from := range racks {
		for _, flow := range []struct {
			to  int
			bps float64
		}{
			{(i + perPod) % len(racks), rates.Core},
			{i - i%perPod + (i+1)%perPod, rates.Rack},
		} {
			if flow.to == i || flow.bps == 0 {
				continue
			}
			if err := all.addFlows(out, from, racks[flow.to], flow.bps); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// addFlows adds one flow of a given rate per equal-cost path of a pair.
func (all *Agents) addFlows(out map[fabric.NodeID][]*control.BackgroundFlow, from, to fabric.NodeID, bps float64) error {
	b, plan := all.cluster.Scenario.Background, all.cluster.Plan
	proto := uint8(unix.IPPROTO_TCP)
	if b.Kind == scenarios.BackgroundUDP {
		proto = unix.IPPROTO_UDP
	}
	table, err := all.lab.Fabric.PathPorts(kernel.Flow{Src: from, Dst: to, Proto: proto, SrcPort: backgroundPortBase, DstPort: dataPort}, 1)
	if err != nil {
		return fmt.Errorf("background ports from %s to %s: %w", plan.Nodes[from].Name, plan.Nodes[to].Name, err)
	}
	for _, ports := range table {
		out[from] = append(out[from], &control.BackgroundFlow{
			PeerAddress: plan.Nodes[to].Addrs[0].String(), PeerPort: dataPort, SourcePort: uint32(ports[0]),
			BitsPerSecond: bps, Kind: b.Kind, Dscp: int32(b.DSCP), Segments: int32(plan.Ports[from][0].GSOMaxSegs),
		})
	}
	return nil
}

// sessions are the open sessions with all agents of a trial.
type sessions struct {
	epoch      int64
	members    []Member
	background []Session
}

// open starts a session with every agent. The instances of the trial are those of the cluster's
// roles, or all of them as ends of explicit transfers. Paper time begins far enough in the future
// to reach every agent before it.
func (all *Agents) open(ctx context.Context, endpoints bool) (_ *sessions, err error) {
	agents, prefill, decode := all.lab.Agents, all.cluster.Plan.Prefill, all.cluster.Plan.Decode
	if endpoints {
		prefill = trials.Endpoints(all.cluster.Plan)
		decode = prefill
	}
	s := &sessions{epoch: kvagent.Monotonic() + int64(100*time.Millisecond) + int64(len(agents))*int64(2*time.Millisecond)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for i := range agents {
		a := &agents[i]
		// The trial's context must not end the sessions: after an interruption they are
		// closed in order, after their last events.
		session, err := a.Client.Session(context.WithoutCancel(ctx), s.epoch)
		if err != nil {
			return s, fmt.Errorf("open a session with agent %s: %w", a.Node, err)
		}
		s.members = append(s.members, Member{
			Node: a.Node, Prefill: slices.Index(prefill, a.ID), Decode: slices.Index(decode, a.ID), Session: session,
		})
		if all.cluster.Plan.Nodes[a.ID].Kind == fabric.KindBackground {
			s.background = append(s.background, session)
		}
	}
	return s, nil
}

// close ends all sessions and names the agents that did not end theirs in order: these are
// dead or hang.
func (s *sessions) close() (lost []string) {
	for _, m := range s.members {
		if err := m.Session.Close(); err != nil {
			lost = append(lost, fmt.Sprintf("agent %s (%v)", m.Node, err))
		}
	}
	return lost
}
