package architecture

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheCommandCompilesForMacOS: the flow world runs there, so nothing of Linux's
// may leak into what is built everywhere.
func TestTheCommandCompilesForMacOS(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the whole program for another system")
	}
	cmd := exec.CommandContext(t.Context(), "go", "vet", "./cmd/netkvlab")
	cmd.Dir = top
	cmd.Env = append(os.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}
