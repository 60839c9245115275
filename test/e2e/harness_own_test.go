package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestLeftoversAreOfTheseTestsOnly: others may run the same binary on this host. The search must
// find one of our own processes, which shows that it works.
func TestLeftoversAreOfTheseTestsOnly(t *testing.T) {
	before := leftovers(t)
	// run starts a process with our program's name that runs until it is killed.
	run := func(env ...string) {
		fake := filepath.Join(t.TempDir(), "netkvlab")
		sleep, err := exec.LookPath("sleep")
		require.NoError(t, err)
		data, err := os.ReadFile(sleep)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(fake, data, 0o700))
		cmd := exec.Command(fake, "300")
		cmd.Env = env
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
	}
	run("PATH=/usr/bin")
	assert.Equal(t, before, leftovers(t), "a process of somebody else")
	run(os.Environ()...)
	waitFor(t, 10*time.Second, "our own process to be seen", func() bool { return leftovers(t) != before })
}
