package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/api/types/system"
)

const (
	imageName  = "netkvlab/agent"
	binaryPath = "/netkvlab" // in the image
	runPath    = "/run/netkvlab"
)

// agentImage is an image that is not loaded yet: one layer with one binary.
type agentImage struct {
	ref    string // name and tag; the tag is the head of the digest
	digest string // sha256 of the binary, hex
	binary []byte
}

// newAgentImage reads a binary and makes sure that it runs without libraries.
func newAgentImage(path string) (*agentImage, error) {
	binary, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the agents' binary: %w", err)
	}
	if err := checkStatic(binary); err != nil {
		return nil, fmt.Errorf("%s cannot be a container's only file: %w: build it with `make build` (CGO_ENABLED=0), %s", path, err, wayOut)
	}
	digest := hash(binary)
	return &agentImage{ref: imageName + ":" + digest[:16], digest: digest, binary: binary}, nil
}

// checkStatic refuses a program that needs an interpreter or libraries.
func checkStatic(binary []byte) error {
	f, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		return fmt.Errorf("it is no program for Linux: %w", err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("it was not linked statically")
		}
	}
	return nil
}

// ensure loads the image unless the engine has it.
func (e *Engine) ensure(ctx context.Context, img *agentImage, version string, info system.Info) error {
	have, err := e.api.ImageInspect(ctx, img.ref)
	if err == nil && have.Config != nil && have.Config.Labels[labelDigest] == img.digest {
		return nil
	}
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("look for agent image %s: %w", img.ref, err)
	}
	archive, err := img.archive(version)
	if err == nil {
		err = e.load(ctx, archive)
	}
	if err != nil {
		return fmt.Errorf("load agent image %s: %w", img.ref, full(err, info))
	}
	return nil
}

// load sends an image to the engine, which reports most faults in the body of its answer.
func (e *Engine) load(ctx context.Context, archive []byte) (err error) {
	answer, err := e.api.ImageLoad(ctx, bytes.NewReader(archive))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	for dec := json.NewDecoder(answer.Body); ; {
		var line struct {
			Error string `json:"error"`
		}
		switch err := dec.Decode(&line); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read the engine's answer: %w", err)
		case line.Error != "":
			return errors.New(line.Error)
		}
	}
}

// archive is the image in the format of docker load. The same binary and version give the
// same bytes, and so the same image ID on every host: all times are 1970-01-01.
func (img *agentImage) archive(version string) ([]byte, error) {
	layer, err := tarball(entry{"run/", 0o755, nil}, entry{runPath[1:] + "/", 0o755, nil}, entry{binaryPath[1:], 0o755, img.binary})
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "created": time.Unix(0, 0).UTC(),
		"config": map[string]any{
			"Entrypoint": []string{binaryPath, "kvagent"},
			"Labels":     map[string]string{labelVersion: version, labelDigest: img.digest},
		},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hash(layer)}},
		"history": []any{map[string]any{"created": time.Unix(0, 0).UTC(), "created_by": "netkvlab"}},
	})
	if err != nil {
		return nil, err
	}
	configName := hash(config) + ".json"
	manifest, err := json.Marshal([]any{map[string]any{
		"Config": configName, "RepoTags": []string{img.ref}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return nil, err
	}
	return tarball(entry{"layer.tar", 0o644, layer}, entry{configName, 0o644, config}, entry{"manifest.json", 0o644, manifest})
}

// entry is a file, or a folder if its name ends in a slash.
type entry struct {
	name string
	mode int64
	data []byte
}

func tarball(entries ...entry) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		err := w.WriteHeader(&tar.Header{
			Name: e.name, Mode: e.mode, Size: int64(len(e.data)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR,
		})
		if err == nil {
			_, err = w.Write(e.data)
		}
		if err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

func hash(b []byte) string {
	return fmt.Sprintf("%x", sha256.Sum256(b))
}

// present makes sure that the engine has a user's image: it is never pulled.
func (e *Engine) present(ctx context.Context, ref string) error {
	_, err := e.api.ImageInspect(ctx, ref)
	if errdefs.IsNotFound(err) {
		return fmt.Errorf("nodes.image: the engine has no image %q, and netkvlab pulls none: build or `docker pull` it first", ref)
	}
	if err != nil {
		return fmt.Errorf("nodes.image: look for %q: %w", ref, err)
	}
	return nil
}

// RemoveImages deletes the agent images that netkvlab made and no container uses, and
// returns their names. Without an engine there are none.
func (e *Engine) RemoveImages(ctx context.Context) ([]string, error) {
	if err := e.reach(ctx); err != nil {
		return nil, absent(err)
	}
	ours, err := e.api.ImageList(ctx, image.ListOptions{Filters: filters.NewArgs(filters.Arg("label", labelDigest))})
	if err != nil {
		return nil, fmt.Errorf("list agent images: %w", err)
	}
	var removed []string
	var errs []error
	for _, img := range ours {
		for _, ref := range img.RepoTags {
			_, err := e.api.ImageRemove(ctx, ref, image.RemoveOptions{PruneChildren: true})
			switch {
			case err == nil:
				removed = append(removed, ref)
			case !errdefs.IsNotFound(err) && !errdefs.IsConflict(err): // a conflict: the image is in use
				errs = append(errs, fmt.Errorf("delete agent image %s: %w", ref, err))
			}
		}
	}
	return removed, errors.Join(errs...)
}
