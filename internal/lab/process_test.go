package lab

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/netkvlab/netkvlab/nodes"
)

func TestOnlyTheLabsOwnProcessesAreEnded(t *testing.T) {
	t.Parallel()
	const lab, here, p0, d0 = "lab", 1, 10, 11
	for _, tt := range []struct {
		name string
		proc nodes.Proc
		here uint64 // where `down` runs
		want bool
	}{
		{"an agent", nodes.Proc{PID: 5, Lab: lab, Netns: p0, Agent: true}, here, true},
		{"a command of exec", nodes.Proc{PID: 5, Lab: lab, Netns: p0}, here, true},
		{"a shell that nsenter started", nodes.Proc{PID: 5, Netns: p0}, here, false},
		{"a command of another lab's exec", nodes.Proc{PID: 5, Lab: "other", Netns: p0}, here, false},
		{"somebody's program of the agent's name", nodes.Proc{PID: 5, Netns: p0, Agent: true}, here, false},
		{"the shell of exec that asks", nodes.Proc{PID: 2, Lab: lab, Netns: d0}, d0, false},
		{"a shell of exec in which that one was started", nodes.Proc{PID: 3, Lab: lab, Netns: p0}, d0, false},
		{"what its answer is piped into", nodes.Proc{PID: 6, Lab: lab, Netns: d0}, d0, false},
		{"the agent beside who asks", nodes.Proc{PID: 5, Lab: lab, Netns: d0, Agent: true}, d0, true},
		{"a command of exec elsewhere", nodes.Proc{PID: 5, Lab: lab, Netns: p0}, d0, true},
	} {
		got := pick([]nodes.Proc{tt.proc}, lab, map[int]bool{1: true, 2: true, 3: true}, tt.here)
		assert.Equal(t, tt.want, len(got) == 1, tt.name)
	}
}

func TestWhoIsLeftAloneIsNamed(t *testing.T) {
	t.Parallel()
	held := map[string][]int{"lab.p0": {os.Getpid(), os.Getppid()}, "lab.d0": {os.Getpid()}}
	notes := leftAlone("lab", held)
	if assert.Len(t, notes, 1, "this process ends by itself") {
		assert.Regexp(t, `^left alone in node p0: process \d+ \("[^"]+"\); the network there`, notes[0])
	}
}
