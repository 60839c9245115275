package kvagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/netkvlab/netkvlab/kvagent/control"
)

const (
	callTimeout  = 20 * time.Second // of a unary call whose context has no deadline; an overloaded host takes seconds
	warmTimeout  = 60 * time.Second // the same for Warm, which may meet lost SYNs
	closeTimeout = 5 * time.Second  // for an agent to end a session
)

// Client talks to one agent. It is safe for concurrent use.
type Client struct {
	conn  *grpc.ClientConn
	rpc   control.AgentClient
	hello *control.HelloResponse // the agent's answer when it was dialled
}

// Dial connects to an agent's control socket, waiting for the agent to come up until ctx is done, and checks that
// both speak the same protocol.
func Dial(ctx context.Context, socket string) (*Client, error) {
	// An agent will answer within milliseconds.
	retry := backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.3, Jitter: 0.2, MaxDelay: 100 * time.Millisecond}
	conn, err := grpc.NewClient("unix:"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: time.Second}),
		grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
	)
	if err != nil {
		return nil, fmt.Errorf("agent at %s: %w", socket, err)
	}
	c := &Client{conn: conn, rpc: control.NewAgentClient(conn)}
	c.hello, err = call(ctx, callTimeout, c.rpc.Hello, &control.HelloRequest{Protocol: control.Protocol}, grpc.WaitForReady(true))
	if err == nil && c.hello.GetProtocol() != control.Protocol {
		err = fmt.Errorf("it speaks protocol %d, this program %d: use the same netkvlab for both", c.hello.GetProtocol(), control.Protocol)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("agent at %s: hello: %w", socket, err), conn.Close())
	}
	return c, nil
}

// call makes a unary call. The limit is that of a context without a deadline. Where the caller
// has cancelled the context, call returns the context's error, so that errors.Is finds it: gRPC
// answers with its own status.
func call[Request, Reply any](ctx context.Context, limit time.Duration,
	method func(context.Context, Request, ...grpc.CallOption) (Reply, error), r Request, opts ...grpc.CallOption,
) (Reply, error) {
	limited := ctx
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	reply, err := method(limited, r, opts...)
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.Canceled):
		err = ctx.Err()
	case ctx.Err() == nil && limited.Err() != nil:
		err = fmt.Errorf("no answer within %v, so the agent is stopped or the host has no CPU time for it: %w", limit, err)
	}
	return reply, err
}

// Close drops the connection; an open session ends with it.
func (c *Client) Close() error { return c.conn.Close() }

// Configure sets role, data plane and engine. It needs no open session.
func (c *Client) Configure(ctx context.Context, r *control.ConfigureRequest) error {
	_, err := call(ctx, callTimeout, c.rpc.Configure, r)
	return err
}

// Warm opens connections until each path has the given number, and returns how many the pool holds. All agents must
// have been configured before.
func (c *Client) Warm(ctx context.Context, perPath int) (int, error) {
	r, err := call(ctx, warmTimeout, c.rpc.Warm, &control.WarmRequest{ConnectionsPerPath: int32(perPath)})
	return int(r.GetConnections()), err
}

// Status reports what is in flight.
func (c *Client) Status(ctx context.Context) (*control.StatusResponse, error) {
	return call(ctx, callTimeout, c.rpc.Status, &control.StatusRequest{})
}

// Session is one trial at one agent.
//
// Send is safe for concurrent use; Close may be called more than once.
type Session struct {
	stream control.Agent_SessionClient
	cancel context.CancelFunc
	events chan *control.Event
	done   chan struct{} // closed when the reader has ended; err is valid then
	err    error
	send   sync.Mutex
}

// Session opens a trial whose paper time 0 is at the monotonic time epoch, and returns when the agent has started
// it. Open the sessions of all agents before the first transfer. It lasts until Close, the end of ctx or of the
// agent.
func (c *Client) Session(ctx context.Context, epoch int64) (*Session, error) {
	node := c.hello.GetNode()
	ctx, cancel := context.WithCancel(ctx)
	defer time.AfterFunc(callTimeout, cancel).Stop()
	stream, err := c.rpc.Session(ctx)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("agent %s: open session: %w", node, err)
	}
	// An error of this send is io.EOF; Recv returns the cause.
	_ = stream.Send(&control.Command{Command: &control.Command_Start{Start: &control.Start{EpochNs: epoch}}})
	first, err := stream.Recv()
	if err == nil && first.GetStarted() == nil {
		err = fmt.Errorf("the first event is %T, want started", first.GetEvent())
	}
	if err != nil {
		cancel()
		return nil, fmt.Errorf("agent %s: start session: %w", node, err)
	}
	s := &Session{stream: stream, cancel: cancel, events: make(chan *control.Event, 256), done: make(chan struct{})}
	go s.read(ctx)
	return s, nil
}

// read passes events on until the stream ends.
func (s *Session) read(ctx context.Context) {
	defer close(s.done)
	defer close(s.events)
	for {
		e, err := s.stream.Recv()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.err = err
			}
			return
		}
		select {
		case s.events <- e:
		case <-ctx.Done():
			s.err = ctx.Err()
			return
		}
	}
}

// ErrSessionOver is Send's answer when the agent has ended the session. Events are closed when the last one is read,
// and then Err says why.
var ErrSessionOver = errors.New("the agent has ended the session")

// Send sends a command. After an error the session is over.
func (s *Session) Send(c *control.Command) error {
	s.send.Lock()
	defer s.send.Unlock()
	if err := s.stream.Send(c); err != nil {
		if errors.Is(err, io.EOF) { // then Recv returns the cause
			return ErrSessionOver
		}
		return fmt.Errorf("send command: %w", err)
	}
	return nil
}

// Events are what happened, in order for each request. The channel is closed at the session's end. Read it: an agent
// that cannot send its events ends the session.
func (s *Session) Events() <-chan *control.Event { return s.events }

// Err says why the session ended: nil before its end, and after a Close that both sides took part in.
func (s *Session) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Close ends the trial: the agent aborts what is in progress and is idle when Close returns nil. Events not read yet
// are dropped.
func (s *Session) Close() error {
	defer s.cancel()
	s.send.Lock()
	err := s.stream.CloseSend()
	s.send.Unlock()
	defer time.AfterFunc(closeTimeout, s.cancel).Stop()
	for range s.events { // unblocks the reader
	}
	<-s.done
	if s.err != nil {
		return fmt.Errorf("close session: %w", s.err)
	}
	return err
}
