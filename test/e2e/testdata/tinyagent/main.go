// Command tinyagent is an agent for netkvlab that shares no code with netkvlab's own: it was
// written only from docs/agent-protocol.md and the generated protocol, to prove that these are
// enough. It prefills and decodes with constant times, caches nothing, supports only push, and
// opens a new connection for each stream.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "example.org/tinyagent/control"
)

func main() {
	socket := flag.String("socket", "", "control socket")
	node := flag.String("node", "", "name of the node")
	flag.Parse()
	if err := serve(*socket, *node); err != nil {
		fmt.Fprintln(os.Stderr, "tinyagent:", err)
		os.Exit(1)
	}
}

func serve(socket, node string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	s := grpc.NewServer()
	pb.RegisterAgentServer(s, &agent{node: node})
	context.AfterFunc(ctx, s.Stop)
	return s.Serve(l)
}

// agent answers the calls. There is one session at a time, and no Configure during it.
type agent struct {
	pb.UnimplementedAgentServer
	node string

	mu    sync.Mutex
	cfg   *pb.ConfigureRequest
	plane *plane
}

func (a *agent) Hello(_ context.Context, r *pb.HelloRequest) (*pb.HelloResponse, error) {
	if r.Protocol > 1 {
		return nil, status.Errorf(codes.FailedPrecondition, "tinyagent speaks protocol 1, the controller %d", r.Protocol)
	}
	return &pb.HelloResponse{Protocol: 1, Version: "tinyagent", Pid: int32(os.Getpid()), Node: a.node}, nil
}

func (a *agent) Configure(_ context.Context, r *pb.ConfigureRequest) (*pb.ConfigureResponse, error) {
	if r.Transfer.GetPull() || r.Transfer.GetIntegrity() {
		return nil, status.Error(codes.InvalidArgument, "tinyagent can neither pull nor check payloads")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.plane != nil {
		a.plane.close()
	}
	var err error
	if a.plane, err = listen(r); err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	a.cfg = r
	return &pb.ConfigureResponse{}, nil
}

func (a *agent) Warm(context.Context, *pb.WarmRequest) (*pb.WarmResponse, error) {
	return &pb.WarmResponse{}, nil // each stream opens its own connection
}

func (a *agent) Status(context.Context, *pb.StatusRequest) (*pb.StatusResponse, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := &pb.StatusResponse{}
	if a.cfg != nil {
		out.Role = a.cfg.Role
		out.MemoryPaperBytes, out.FreePaperBytes = a.cfg.Engine.GetMemoryPaperBytes(), a.cfg.Engine.GetMemoryPaperBytes()
		out.BytesIn, out.BytesOut = a.plane.in.Load(), a.plane.out.Load()
		out.CongestionControl = a.cfg.Transfer.GetCongestionControl()
	}
	return out, nil
}

func (a *agent) Session(stream pb.Agent_SessionServer) error {
	a.mu.Lock()
	cfg, plane := a.cfg, a.plane
	a.mu.Unlock()
	if cfg == nil {
		return status.Error(codes.FailedPrecondition, "not configured")
	}
	s := newSession(cfg, plane)
	defer s.close()
	commands := make(chan *pb.Command)
	failed := make(chan error, 1)
	go func() {
		for {
			c, err := stream.Recv()
			if err != nil {
				failed <- err
				return
			}
			select {
			case commands <- c:
			case <-s.ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case c := <-commands:
			s.handle(c)
		case ev := <-s.events:
			if err := stream.Send(ev); err != nil {
				return err
			}
		case <-failed: // the controller will send no more commands
			return nil
		}
	}
}
