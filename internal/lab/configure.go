package lab

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/netkvlab/netkvlab/fabric"
	"github.com/netkvlab/netkvlab/fabric/kernel"
	"github.com/netkvlab/netkvlab/internal/trials"
	"github.com/netkvlab/netkvlab/internal/workload"
	"github.com/netkvlab/netkvlab/kvagent/control"
	"github.com/netkvlab/netkvlab/scenarios"
)

const (
	// dataPort is where agents take transfers, on every address of theirs.
	dataPort = 7000
	// firstSourcePort starts the source ports that transfers are sent from.
	firstSourcePort = 10000
	// portsPerPath bounds how many connections a pair may have on one path at once, and
	// portLookups how many ports are looked up for the whole lab: at some 12 us
	// each, a lab with many pairs gets fewer a path, but enough for two transfers
	// whose streams all draw the same path.
	portsPerPath = 64
	portLookups  = 200_000
	// warmPerPath is how many of them are opened before the clock starts.
	warmPerPath = 2
	// warmAtMost bounds the warm connections of a whole lab; beyond it they open when needed.
	warmAtMost = 8192
)

// role is what a node's agent is configured as.
func (l *Lab) role(n *fabric.Node) control.Role {
	switch {
	case n.Kind == fabric.KindBackground:
		return control.Role_ROLE_BACKGROUND
	case n.Kind != fabric.KindInstance:
		return control.Role_ROLE_UNSPECIFIED
	case l.Scenario.Workload.Kind == scenarios.WorkloadFlows:
		return control.Role_ROLE_ENDPOINT
	case n.Role == fabric.RolePrefill:
		return control.Role_ROLE_PREFILL
	case n.Role == fabric.RoleDecode:
		return control.Role_ROLE_DECODE
	}
	return control.Role_ROLE_UNSPECIFIED
}

// configure gives every agent its role, its peers and the path table to them, and
// opens the connections that the trials will use.
func (l *Lab) configure(ctx context.Context) error {
	l.opt.Progress.Phase("choosing source ports for every path and opening connections")
	flows, err := l.backgroundFlows()
	if err != nil {
		return err
	}
	if err := l.makeConfigs(ctx, flows); err != nil {
		return err
	}
	if err := l.Reset(ctx); err != nil {
		return err
	}
	if l.Scenario.Transfer.Paths == scenarios.PathsFresh || l.paths()*warmPerPath > warmAtMost {
		return nil
	}
	return l.each(ctx, func(ctx context.Context, a *Agent, _ *control.ConfigureRequest) error {
		_, err := a.Client.Warm(ctx, warmPerPath)
		return err
	})
}

// makeConfigs finds the source ports of every agent and writes its configuration.
func (l *Lab) makeConfigs(ctx context.Context, flows map[fabric.NodeID][]*control.BackgroundFlow) error {
	l.configs = make([]*control.ConfigureRequest, len(l.Agents))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i := range l.Agents {
		g.Go(func() (err error) {
			if err := ctx.Err(); err != nil {
				return err
			}
			a := &l.Agents[i]
			if l.configs[i], err = l.config(a, flows[a.ID]); err != nil {
				return fmt.Errorf("configure %s: %w", a.Node, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// paths counts those of all pairs.
func (l *Lab) paths() int {
	n := 0
	for _, c := range l.configs {
		for _, p := range c.Peers {
			for _, nic := range p.Nics {
				n += len(nic.Paths)
			}
		}
	}
	return n
}

// Reset drops whatever an earlier trial left in the agents: caches, queues,
// memory. Connections stay.
func (l *Lab) Reset(ctx context.Context) error {
	return l.each(ctx, func(ctx context.Context, a *Agent, c *control.ConfigureRequest) error {
		return a.Client.Configure(ctx, c)
	})
}

// Endpoints makes every instance a plain end of transfers, without an engine, until the
// next Reset. Connections stay.
func (l *Lab) Endpoints(ctx context.Context) error {
	return l.each(ctx, func(ctx context.Context, a *Agent, c *control.ConfigureRequest) error {
		if l.Plan.Nodes[a.ID].Kind != fabric.KindInstance {
			return nil
		}
		plain := proto.CloneOf(c)
		plain.Role = control.Role_ROLE_ENDPOINT
		return a.Client.Configure(ctx, plain)
	})
}

// Pairs lists who may send to whom, in the order of the agents.
func (l *Lab) Pairs() [][2]fabric.NodeID {
	var out [][2]fabric.NodeID
	for i := range l.Agents {
		n := &l.Plan.Nodes[l.Agents[i].ID]
		for _, to := range l.receivers(n) {
			out = append(out, [2]fabric.NodeID{n.ID, to})
		}
	}
	return out
}

func (l *Lab) each(ctx context.Context, do func(context.Context, *Agent, *control.ConfigureRequest) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for i := range l.Agents {
		g.Go(func() error {
			if err := do(ctx, &l.Agents[i], l.configs[i]); err != nil {
				return fmt.Errorf("agent %s: %w", l.Agents[i].Node, err)
			}
			return nil
		})
	}
	return g.Wait()
}

func (l *Lab) config(a *Agent, flows []*control.BackgroundFlow) (*control.ConfigureRequest, error) {
	n := &l.Plan.Nodes[a.ID]
	s := l.Scenario
	req := &control.ConfigureRequest{
		Role: l.role(n), Node: n.Name, DataPort: dataPort, TimeScale: l.Plan.Scale.Time,
		Engine: engineConfig(s), Transfer: transferConfig(s, l.Plan.Scale.Time), Background: flows,
	}
	for _, addr := range n.Addrs {
		req.Addresses = append(req.Addresses, addr.String())
	}
	for _, to := range l.receivers(n) {
		peer, err := l.peer(n, &l.Plan.Nodes[to])
		if err != nil {
			return nil, err
		}
		req.Peers = append(req.Peers, peer)
	}
	return req, nil
}

// receivers are the nodes that an agent may send to.
func (l *Lab) receivers(n *fabric.Node) []fabric.NodeID {
	switch l.role(n) {
	case control.Role_ROLE_PREFILL:
		return l.Plan.Decode
	case control.Role_ROLE_ENDPOINT:
		return l.flowReceivers(n)
	}
	return nil
}

// flowPairs are the senders and receivers of a scenario's explicit flows, by name:
// only they need connections. Other workloads have none.
func flowPairs(s *scenarios.Scenario) (map[[2]string]bool, error) {
	if s.Workload.Kind != scenarios.WorkloadFlows {
		return nil, nil
	}
	flows, err := workload.LoadFlows(s, s.Seeds[0])
	if err != nil {
		return nil, err
	}
	pairs := make(map[[2]string]bool, len(flows))
	for i := range flows {
		pairs[[2]string{flows[i].From, flows[i].To}] = true
	}
	return pairs, nil
}

// flowReceivers are the destinations that the scenario's flows give this sender.
func (l *Lab) flowReceivers(n *fabric.Node) []fabric.NodeID {
	var out []fabric.NodeID
	for _, id := range trials.Endpoints(l.Plan) {
		if l.flowPairs[[2]string{n.Name, l.Plan.Nodes[id].Name}] {
			out = append(out, id)
		}
	}
	return out
}

func (l *Lab) peer(from, to *fabric.Node) (*control.Peer, error) {
	peer := &control.Peer{Node: to.Name, DataPort: dataPort}
	for nic, addr := range to.Addrs {
		peer.Addresses = append(peer.Addresses, addr.String())
		table, err := l.Fabric.PathPorts(kernel.Flow{Src: from.ID, Dst: to.ID, SrcNIC: nic, DstNIC: nic, SrcPort: firstSourcePort, DstPort: dataPort}, l.portsWanted())
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
func (l *Lab) portsWanted() int {
	pairs := len(l.flowPairs)
	if l.Scenario.Workload.Kind != scenarios.WorkloadFlows {
		pairs = len(l.Plan.Prefill) * len(l.Plan.Decode)
	}
	paths := pairs * l.Plan.PathCount(3) * l.Scenario.Topology.NICsPerInstance
	return max(2*l.Scenario.Transfer.Streams, min(portsPerPath, portLookups/max(1, paths)))
}

func engineConfig(s *scenarios.Scenario) *control.EngineConfig {
	e := s.Engine
	return &control.EngineConfig{
		PrefillMode: e.Prefill.Mode, PrefillBasePaperNs: int64(e.Prefill.Base),
		PrefillPerTokenPaperNs: e.Prefill.PerTokenNs, PrefillPerTokenSquaredPaperNs: e.Prefill.PerTokenSquaredNs,
		MaxBatch: int32(e.Decode.MaxBatch), MemoryPaperBytes: int64(e.Decode.Memory),
		KvBytesPerTokenPaper: int64(s.Model.KVBytesPerToken()), BlockTokens: int32(e.BlockTokens),
		DecodeBasePaperNs: int64(e.Decode.Base), DecodePerSequencePaperNs: int64(e.Decode.PerSequence),
		DecodePerContextTokenPaperNs: e.Decode.PerContextTokenNs,
	}
}

func transferConfig(s *scenarios.Scenario, timeScale float64) *control.TransferConfig {
	t := s.Transfer
	return &control.TransferConfig{
		ChunkBytes: int32(t.Chunk), Dscp: int32(t.DSCP), CongestionControl: t.CongestionControl,
		Integrity: t.Integrity, Pull: t.Mode == scenarios.ModePull, Fresh: t.Paths == scenarios.PathsFresh,
		SetupPaperNs: int64(t.Setup), TimeoutNs: int64(float64(t.Timeout) * timeScale / float64(time.Nanosecond)),
	}
}
