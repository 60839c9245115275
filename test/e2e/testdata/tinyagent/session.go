package main

import (
	"context"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"syscall"

	pb "example.org/tinyagent/control"
)

// monotonic reads the clock that all agents of a host share.
func monotonic() int64 {
	const clockMonotonic = 1
	var ts syscall.Timespec
	_, _, _ = syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Nano()
}

type key struct {
	request uint64
	attempt uint32
}

// session is one trial.
type session struct {
	cfg    *pb.ConfigureRequest
	plane  *plane
	events chan *pb.Event
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	epoch  int64

	mu       sync.Mutex
	free     int64         // paper bytes
	held     map[key]int64 // reservations
	outputs  map[key]int64 // tokens to decode
	computes sync.Mutex    // one prompt at a time
}

func newSession(cfg *pb.ConfigureRequest, p *plane) *session {
	s := &session{
		cfg: cfg, plane: p, events: make(chan *pb.Event, 1024),
		free: cfg.Engine.GetMemoryPaperBytes(), held: map[key]int64{}, outputs: map[key]int64{},
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

func (s *session) close() {
	s.plane.inlet.Store(nil)
	s.cancel()
	s.wg.Wait()
}

// paper converts real time: (monotonic - epoch) / T.
func (s *session) paper(real int64) int64 { return int64(float64(real-s.epoch) / s.cfg.TimeScale) }

func (s *session) emit(k key, ev *pb.Event) {
	ev.Request, ev.Attempt = k.request, k.attempt
	if ev.AtPaperNs == 0 {
		ev.AtPaperNs = s.paper(monotonic())
	}
	select {
	case s.events <- ev:
	case <-s.ctx.Done():
	}
}

func (s *session) fail(k key, stage string, err error) {
	s.release(k)
	s.emit(k, &pb.Event{Event: &pb.Event_Failed{Failed: &pb.Failed{Stage: stage, Reason: err.Error()}}})
}

// sleep waits for the given paper time.
func (s *session) sleep(paperNs float64) bool {
	select {
	case <-time.After(time.Duration(paperNs * s.cfg.TimeScale)):
		return true
	case <-s.ctx.Done():
		return false
	}
}

func (s *session) handle(c *pb.Command) {
	switch c := c.Command.(type) {
	case *pb.Command_Start:
		s.epoch = c.Start.EpochNs
		s.plane.inlet.Store(newInlet(s))
		s.emit(key{}, &pb.Event{Event: &pb.Event_Started{Started: &pb.Started{}}})
	case *pb.Command_Prefill:
		s.wg.Go(func() { s.prefill(c.Prefill) })
	case *pb.Command_Reserve:
		s.reserve(c.Reserve)
	case *pb.Command_Transfer:
		k := key{c.Transfer.Request, c.Transfer.Attempt}
		if c.Transfer.Receive {
			s.plane.inlet.Load().expect(k, c.Transfer)
		} else {
			s.wg.Go(func() { s.send(k, c.Transfer) })
		}
	case *pb.Command_Cancel:
		s.release(key{c.Cancel.Request, c.Cancel.Attempt})
	}
}

func (s *session) prefill(p *pb.Prefill) {
	s.computes.Lock()
	defer s.computes.Unlock()
	k := key{request: p.Request}
	s.emit(k, &pb.Event{Event: &pb.Event_PrefillStarted{PrefillStarted: &pb.PrefillStarted{}}})
	e, n := s.cfg.Engine, float64(p.Tokens)
	if s.sleep(float64(e.PrefillBasePaperNs) + e.PrefillPerTokenPaperNs*n + e.PrefillPerTokenSquaredPaperNs*n*n) {
		s.emit(k, &pb.Event{Event: &pb.Event_PrefillDone{PrefillDone: &pb.PrefillDone{}}})
	}
}

func (s *session) reserve(r *pb.Reserve) {
	k := key{r.Request, r.Attempt}
	need := (r.PromptTokens + r.OutputTokens) * s.cfg.Engine.KvBytesPerTokenPaper
	s.mu.Lock()
	answer := &pb.Reserved{Ok: need <= s.free}
	if answer.Ok {
		s.free -= need
		s.held[k], s.outputs[k] = need, r.OutputTokens
	} else {
		answer.Reason = fmt.Sprintf("%d bytes are free, %d are needed", s.free, need)
	}
	answer.FreePaperBytes = s.free
	s.mu.Unlock()
	s.emit(k, &pb.Event{Event: &pb.Event_Reserved{Reserved: answer}})
}

// release frees memory and returns how much is free then.
func (s *session) release(k key) (free int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += s.held[k]
	delete(s.held, k)
	return s.free
}

// arrived is called when all streams of a transfer have arrived.
func (s *session) arrived(k key, done *pb.TransferDone, lastPaperNs int64) {
	s.emit(k, &pb.Event{AtPaperNs: lastPaperNs, Event: &pb.Event_TransferDone{TransferDone: done}})
	s.wg.Go(func() { s.decode(k) })
}

func (s *session) decode(k key) {
	s.mu.Lock()
	tokens := s.outputs[k]
	s.mu.Unlock()
	step := float64(s.cfg.Engine.DecodeBasePaperNs + s.cfg.Engine.DecodePerSequencePaperNs)
	admitted := s.paper(monotonic())
	s.emit(k, &pb.Event{AtPaperNs: admitted, Event: &pb.Event_Admitted{Admitted: &pb.Admitted{Batch: 1}}})
	if !s.sleep(step) {
		return
	}
	s.emit(k, &pb.Event{Event: &pb.Event_FirstToken{FirstToken: &pb.FirstToken{Batch: 1, AdmittedPaperNs: admitted}}})
	if !s.sleep(step * float64(tokens-1)) {
		return
	}
	fin := &pb.Finished{Tokens: int32(tokens), FreePaperBytes: s.release(k)}
	if tokens > 1 {
		fin.MeanTbtPaperNs = int64(step)
	}
	s.emit(k, &pb.Event{Event: &pb.Event_Finished{Finished: fin}})
}
