package kvagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

// flushTimeout is how long a session that ends may take to send its last events.
const flushTimeout = 2 * time.Second

// service answers the calls of the control protocol.
type service struct {
	control.UnimplementedAgentServer
	node    string
	version string
	life    context.Context // of the agent
	wg      sync.WaitGroup  // goroutines that read a session's commands

	mu      sync.Mutex
	cfg     *config // nil until configured
	plane   *plane
	session *session // nil when no controller has one open
}

// Hello identifies the agent and refuses another version of the protocol.
func (s *service) Hello(_ context.Context, r *control.HelloRequest) (*control.HelloResponse, error) {
	if v := r.GetProtocol(); v != 0 && v != control.Protocol {
		return nil, status.Errorf(codes.FailedPrecondition,
			"agent %s (version %s) speaks protocol %d, the controller %d: use the same netkvlab for both", s.node, s.version, control.Protocol, v)
	}
	return &control.HelloResponse{Protocol: control.Protocol, Version: s.version, Pid: int32(os.Getpid()), Node: s.node}, nil
}

// Configure replaces role and data plane.
func (s *service) Configure(_ context.Context, r *control.ConfigureRequest) (*control.ConfigureResponse, error) {
	c, err := parseConfig(r)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "configure %s: %v", s.node, err)
	}
	r.Peers = nil // parsed: the table of paths need not stay in memory twice
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != nil {
		return nil, status.Errorf(codes.FailedPrecondition, "configure %s: a session is open: end it first", s.node)
	}
	if err := s.life.Err(); err != nil {
		return nil, status.Errorf(codes.Unavailable, "configure %s: the agent is shutting down", s.node)
	}
	s.cfg = nil
	if s.plane != nil && !reflect.DeepEqual(s.plane.net, c.net) {
		s.plane.close()
		s.plane = nil
	}
	if s.plane == nil {
		if s.plane, err = newPlane(s.life, c.net); err != nil {
			return nil, status.Errorf(codes.FailedPrecondition, "configure %s: %v", s.node, err)
		}
	}
	s.plane.count.reset()
	s.cfg = c
	return &control.ConfigureResponse{}, nil
}

// Warm fills the pool.
func (s *service) Warm(ctx context.Context, r *control.WarmRequest) (*control.WarmResponse, error) {
	s.mu.Lock()
	configured, p := s.cfg != nil, s.plane
	s.mu.Unlock()
	if !configured {
		return nil, status.Errorf(codes.FailedPrecondition, "agent %s is not configured", s.node)
	}
	if r.GetConnectionsPerPath() < 0 {
		return nil, status.Errorf(codes.InvalidArgument, "connections_per_path: %d, want 0 or more", r.GetConnectionsPerPath())
	}
	n, err := p.pool.warm(ctx, int(r.GetConnectionsPerPath()))
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "agent %s: %v", s.node, err)
	}
	return &control.WarmResponse{Connections: int32(n)}, nil
}

// Status reports occupancy.
func (s *service) Status(context.Context, *control.StatusRequest) (*control.StatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg == nil {
		return &control.StatusResponse{}, nil
	}
	out := &control.StatusResponse{
		Role: s.cfg.GetRole(), Connections: int32(s.plane.pool.size() + s.plane.inlet.size()), CongestionControl: s.plane.congestion,
	}
	s.plane.count.report(out)
	if s.session != nil && s.session.driver != nil {
		s.session.status(out)
		return out, nil
	}
	// Between trials there is no engine; the status is that of an empty one.
	inst, err := newInstance(s.cfg)
	if err == nil {
		inst.status(out)
	}
	return out, err
}

// Session runs one trial.
func (s *service) Session(stream control.Agent_SessionServer) error {
	ses, err := s.openSession()
	if err != nil {
		return err
	}
	pumped := make(chan error, 1)
	s.wg.Go(func() { pumped <- ses.out.pump(stream.Send) })
	err = s.serve(stream, ses, pumped)
	s.mu.Lock()
	ses.close()
	s.session = nil
	s.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case err := <-pumped:
		return err
	case <-time.After(flushTimeout):
		return status.Errorf(codes.DeadlineExceeded, "agent %s: the controller did not read the last events", s.node)
	}
}

func (s *service) openSession() (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.cfg == nil:
		return nil, status.Errorf(codes.FailedPrecondition, "agent %s is not configured", s.node)
	case s.session != nil:
		return nil, status.Errorf(codes.FailedPrecondition, "agent %s has a session with another controller", s.node)
	}
	s.session = &session{trial: trial{cfg: s.cfg, plane: s.plane, out: newOutbox()}}
	return s.session, nil
}

// serve executes commands until the controller ends the session (nil) or is at fault, or the agent must stop.
func (s *service) serve(stream control.Agent_SessionServer, ses *session, pumped <-chan error) error {
	commands, ended := make(chan *control.Command), make(chan error, 1)
	s.wg.Go(func() { ended <- receiveCommands(stream, commands) })
	for {
		select {
		case c := <-commands:
			if err := s.handle(stream.Context(), ses, c); err != nil {
				return status.Errorf(codes.InvalidArgument, "agent %s: %v", s.node, err)
			}
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case err := <-pumped:
			return fmt.Errorf("agent %s: send events: %w", s.node, err)
		case <-s.life.Done():
			return status.Errorf(codes.Unavailable, "agent %s is shutting down", s.node)
		}
	}
}

// receiveCommands passes commands on until the stream ends: at the latest when its handler has returned.
func receiveCommands(stream control.Agent_SessionServer, out chan<- *control.Command) error {
	for {
		c, err := stream.Recv()
		if err != nil {
			return err
		}
		select {
		case out <- c:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// handle takes the lock for Start only: Status reads the parts that Start makes.
func (s *service) handle(ctx context.Context, ses *session, c *control.Command) error {
	if c.GetStart() != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	return ses.handle(ctx, c)
}

// close ends the data plane; the server has been stopped before.
func (s *service) close() {
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.plane != nil {
		s.plane.close()
		s.plane = nil
	}
}
