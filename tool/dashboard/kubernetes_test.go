package dashboard

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// meta names an object.
type meta struct {
	Name                string
	Labels, Annotations map[string]string
}

// labels choose objects.
type labels struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

// probe is one of a container's.
type probe struct {
	HTTPGet          struct{ Path, Port string } `yaml:"httpGet"`
	PeriodSeconds    int                         `yaml:"periodSeconds"`
	TimeoutSeconds   int                         `yaml:"timeoutSeconds"`
	FailureThreshold int                         `yaml:"failureThreshold"`
}

// container is what one may hold.
type container struct {
	Name, Image string
	Args        []string
	Ports       []struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	ReadinessProbe probe `yaml:"readinessProbe"`
	LivenessProbe  probe `yaml:"livenessProbe"`
	StartupProbe   probe `yaml:"startupProbe"`
	Lifecycle      struct {
		PreStop struct{ Sleep struct{ Seconds int } } `yaml:"preStop"`
	}
	Env             []struct{ Name, Value string }
	Resources       struct{ Requests, Limits map[string]string }
	SecurityContext struct {
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Drop []string }
	} `yaml:"securityContext"`
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

// deployment is what deployment.yaml may hold.
type deployment struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   meta
	Spec       struct {
		Replicas int
		Selector labels
		Strategy struct {
			RollingUpdate struct {
				MaxUnavailable int `yaml:"maxUnavailable"`
				MaxSurge       int `yaml:"maxSurge"`
			} `yaml:"rollingUpdate"`
		}
		Template struct {
			Metadata meta
			Spec     struct {
				AutomountServiceAccountToken  *bool `yaml:"automountServiceAccountToken"`
				TerminationGracePeriodSeconds int   `yaml:"terminationGracePeriodSeconds"`
				SecurityContext               struct {
					RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
					RunAsUser      int                   `yaml:"runAsUser"`
					RunAsGroup     int                   `yaml:"runAsGroup"`
					FSGroup        int                   `yaml:"fsGroup"`
					SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
				} `yaml:"securityContext"`
				Containers []container
				Volumes    []struct {
					Name   string
					Secret struct {
						SecretName  string `yaml:"secretName"`
						DefaultMode int    `yaml:"defaultMode"`
					}
				}
			}
		}
	}
}

func readDeployment(t *testing.T) (deployment, container) {
	t.Helper()
	var d deployment
	decode(t, &d, "kubernetes", "deployment.yaml")
	if len(d.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("%d containers", len(d.Spec.Template.Spec.Containers))
	}
	return d, d.Spec.Template.Spec.Containers[0]
}

// TestDeployment holds the deployment to what it promises. The decoder knows no
// hostNetwork, no hostPort and no privileged, so none can be there.
func TestDeployment(t *testing.T) {
	d, c := readDeployment(t)
	pod := d.Spec.Template.Spec
	if grace := time.Duration(pod.TerminationGracePeriodSeconds) * time.Second; grace <= time.Duration(c.Lifecycle.PreStop.Sleep.Seconds)*time.Second+drain(t) {
		t.Errorf("a pod is killed after %v; it waits %d s and drains up to %v", grace, c.Lifecycle.PreStop.Sleep.Seconds, drain(t))
	}
	if lost := c.ReadinessProbe.PeriodSeconds * c.ReadinessProbe.FailureThreshold; c.Lifecycle.PreStop.Sleep.Seconds <= lost {
		t.Errorf("preStop waits %d s, in which a readiness probe needs %d to fail", c.Lifecycle.PreStop.Sleep.Seconds, lost)
	}
	if !pinned.MatchString(c.Image) {
		t.Errorf("the image %q has no version of three numbers", c.Image)
	}
	s := c.SecurityContext
	if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
		t.Errorf("the container's security context is %+v", s)
	}
	if p := pod.SecurityContext; !p.RunAsNonRoot || p.RunAsUser == 0 || p.RunAsGroup == 0 {
		t.Errorf("the pod's security context is %+v", p)
	}
	if pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		t.Error("the pod gets a token for the cluster, which hone does not need")
	}
	ports := map[string]int{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for _, p := range []probe{c.ReadinessProbe, c.LivenessProbe, c.StartupProbe} {
		if ports[p.HTTPGet.Port] != 7070 {
			t.Errorf("%s is asked on the port %q of %v", p.HTTPGet.Path, p.HTTPGet.Port, ports)
		}
	}
	if c.ReadinessProbe.HTTPGet.Path != "/healthz" || c.LivenessProbe.HTTPGet.Path == "/healthz" {
		t.Errorf("ready is %s, alive is %s: a draining server is alive and not ready", c.ReadinessProbe.HTTPGet.Path, c.LivenessProbe.HTTPGet.Path)
	}
	if v := pod.Volumes; len(v) != 1 || v[0].Secret.SecretName == "" || v[0].Secret.DefaultMode&0o007 != 0 {
		t.Errorf("volumes %+v: the token, which others cannot read, and nothing else", v)
	}
}

// TestSelectors compares the labels of all objects.
func TestSelectors(t *testing.T) {
	d, c := readDeployment(t)
	var service struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   meta
		Spec       struct {
			Selector map[string]string
			Ports    []struct {
				Name       string
				Port       int
				TargetPort string `yaml:"targetPort"`
			}
		}
	}
	decode(t, &service, "kubernetes", "service.yaml")
	var disruption struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   meta
		Spec       struct {
			MaxUnavailable int `yaml:"maxUnavailable"`
			Selector       labels
		}
	}
	decode(t, &disruption, "kubernetes", "disruption.yaml")
	var network struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   meta
		Spec       struct {
			PodSelector labels   `yaml:"podSelector"`
			PolicyTypes []string `yaml:"policyTypes"`
			Ingress     []struct {
				From []struct {
					NamespaceSelector labels `yaml:"namespaceSelector"`
				}
				Ports []struct{ Port string }
			}
		}
	}
	decode(t, &network, "kubernetes", "network.yaml")
	name := d.Spec.Template.Metadata.Labels["app.kubernetes.io/name"]
	for what, chosen := range map[string]map[string]string{
		"deployment": d.Spec.Selector.MatchLabels, "service": service.Spec.Selector,
		"disruption": disruption.Spec.Selector.MatchLabels, "network": network.Spec.PodSelector.MatchLabels,
	} {
		if len(chosen) != 1 || name == "" || chosen["app.kubernetes.io/name"] != name {
			t.Errorf("%s chooses %v, pods are %v", what, chosen, d.Spec.Template.Metadata.Labels)
		}
	}
	var ports []string
	for _, p := range c.Ports {
		ports = append(ports, p.Name)
	}
	for _, p := range service.Spec.Ports {
		if !slices.Contains(ports, p.TargetPort) || p.TargetPort == "admin" {
			t.Errorf("the service leads to %q of %v", p.TargetPort, ports)
		}
	}
	for _, rule := range network.Spec.Ingress {
		for _, p := range rule.Ports {
			if !slices.Contains(ports, p.Port) || p.Port == "admin" && len(rule.From) == 0 {
				t.Errorf("the network lets everybody to %q of %v", p.Port, ports)
			}
		}
	}
	if d.Spec.Replicas <= disruption.Spec.MaxUnavailable {
		t.Errorf("%d replicas, of which %d may be away at once", d.Spec.Replicas, disruption.Spec.MaxUnavailable)
	}
	var all struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Resources  []string
	}
	decode(t, &all, "kubernetes", "kustomization.yaml")
	files, err := filepath.Glob(deployed(t, "kubernetes", "*.yaml"))
	if err != nil || len(files) != len(all.Resources)+1 {
		t.Errorf("kustomization.yaml lists %v, there are %v (%v)", all.Resources, files, err)
	}
}

// TestKustomize has kubectl put the manifests together.
func TestKustomize(t *testing.T) {
	kubectl := needs(t, "kubectl")
	out := run(t, deployed(t, "kubernetes"), kubectl, "kustomize", ".")
	for _, kind := range []string{"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"} {
		if !strings.Contains(out, "kind: "+kind+"\n") {
			t.Errorf("kubectl kustomize makes no %s", kind)
		}
	}
}
