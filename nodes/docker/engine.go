// Package docker runs agents as containers.
package docker

import (
	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"
)

var (
	_ = client.NewClientWithOpts
	_ = errdefs.IsNotFound
)
