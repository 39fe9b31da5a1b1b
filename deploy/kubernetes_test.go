package deploy

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

// labels select objects.
type labels struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

// probe is a container's probe.
type probe struct {
	HTTPGet          struct{ Path, Port string } `yaml:"httpGet"`
	PeriodSeconds    int                         `yaml:"periodSeconds"`
	TimeoutSeconds   int                         `yaml:"timeoutSeconds"`
	FailureThreshold int                         `yaml:"failureThreshold"`
}

// port is a container's port.
type port struct {
	Name          string
	ContainerPort int `yaml:"containerPort"`
}

// container lists what a container may have.
type container struct {
	Name, Image    string
	Args           []string
	Ports          []port
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

// deployment lists what deployment.yaml and statefulset.yaml may contain.
type deployment struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   meta
	Spec       struct {
		ServiceName string `yaml:"serviceName"` // of a StatefulSet
		Replicas    int
		Selector    labels
		Strategy    struct {
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
					FSGroupChange  string                `yaml:"fsGroupChangePolicy"`
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
		VolumeClaimTemplates []struct {
			Metadata meta
			Spec     struct {
				AccessModes []string `yaml:"accessModes"`
				Resources   struct{ Requests map[string]string }
			}
		} `yaml:"volumeClaimTemplates"`
	}
}

// deployments are the manifests of both commands, each with the port of its admin side.
var deployments = map[string]int{"deployment.yaml": 7070, "honed/statefulset.yaml": 7171}

func readDeployment(t *testing.T, name string) (deployment, container) {
	t.Helper()
	var d deployment
	decode(t, &d, "kubernetes", filepath.FromSlash(name))
	if len(d.Spec.Template.Spec.Containers) != 1 {
		t.Fatalf("%d containers", len(d.Spec.Template.Spec.Containers))
	}
	return d, d.Spec.Template.Spec.Containers[0]
}

// TestDeployment checks what the deployments promise. The decoder rejects hostNetwork,
// hostPort and privileged.
func TestDeployment(t *testing.T) {
	for name, admin := range deployments {
		t.Run(name, func(t *testing.T) { checkDeployment(t, name, admin) })
	}
}

func checkDeployment(t *testing.T, name string, admin int) {
	d, c := readDeployment(t, name)
	pod := d.Spec.Template.Spec
	whole := time.Duration(c.Lifecycle.PreStop.Sleep.Seconds)*time.Second + drain(t)
	for _, arg := range c.Args {
		if spread, ok := strings.CutPrefix(arg, "--limit=spread-time="); ok {
			d, err := time.ParseDuration(spread)
			if whole += d; err != nil {
				t.Error(err)
			}
		}
	}
	if grace := time.Duration(pod.TerminationGracePeriodSeconds) * time.Second; grace <= whole {
		t.Errorf("a pod is killed after %v; it waits and drains up to %v", grace, whole)
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
		if ports[p.HTTPGet.Port] != admin {
			t.Errorf("%s is asked on the port %q of %v", p.HTTPGet.Path, p.HTTPGet.Port, ports)
		}
	}
	if c.ReadinessProbe.HTTPGet.Path != "/healthz" || c.LivenessProbe.HTTPGet.Path == "/healthz" {
		t.Errorf("ready is %s, alive is %s: a draining server is alive and not ready", c.ReadinessProbe.HTTPGet.Path, c.LivenessProbe.HTTPGet.Path)
	}
	for _, v := range pod.Volumes {
		if v.Secret.SecretName == "" || v.Secret.DefaultMode&0o007 != 0 {
			t.Errorf("volume %+v: secrets, which others cannot read, and nothing else", v)
		}
	}
	goal := ""
	for _, e := range c.Env {
		if e.Name == "GOMEMLIMIT" {
			goal = e.Value
		}
	}
	wantMemory(t, name, goal, c.Resources.Limits["memory"])
	if d.Kind == "StatefulSet" && (d.Spec.ServiceName == "" || len(d.Spec.VolumeClaimTemplates) != 1 || d.Spec.Replicas != 1) {
		t.Errorf("%d replicas with %d volumes: a log has one writer, and a volume of its own", d.Spec.Replicas, len(d.Spec.VolumeClaimTemplates))
	}
}

// TestSelectors compares the labels of all objects.
func TestSelectors(t *testing.T) {
	t.Run("hone", func(t *testing.T) {
		d, c := readDeployment(t, "deployment.yaml")
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
		checkSelectors(t, ".", d, c, disruption.Spec.Selector)
		if d.Spec.Replicas <= disruption.Spec.MaxUnavailable {
			t.Errorf("%d replicas, of which %d may be away at once", d.Spec.Replicas, disruption.Spec.MaxUnavailable)
		}
	})
	t.Run("honed", func(t *testing.T) {
		d, c := readDeployment(t, "honed/statefulset.yaml")
		checkSelectors(t, "honed", d, c)
	})
}

// checkSelectors compares the labels of one folder's objects, and of others.
func checkSelectors(t *testing.T, dir string, d deployment, c container, others ...labels) {
	t.Helper()
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
	decode(t, &service, "kubernetes", dir, "service.yaml")
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
	decode(t, &network, "kubernetes", dir, "network.yaml")
	name := d.Spec.Template.Metadata.Labels["app.kubernetes.io/name"]
	for i, chosen := range append(others, d.Spec.Selector, labels{service.Spec.Selector}, network.Spec.PodSelector) {
		if len(chosen.MatchLabels) != 1 || name == "" || chosen.MatchLabels["app.kubernetes.io/name"] != name {
			t.Errorf("selector %d chooses %v, pods are %v", i, chosen, d.Spec.Template.Metadata.Labels)
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
}

// TestKustomizations compares what each folder lists with its files.
func TestKustomizations(t *testing.T) {
	for _, dir := range []string{".", "honed", "monitoring"} {
		checkKustomization(t, dir)
	}
}

func checkKustomization(t *testing.T, dir string) {
	t.Helper()
	var all struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Resources  []string
	}
	decode(t, &all, "kubernetes", dir, "kustomization.yaml")
	files, err := filepath.Glob(deployed(t, "kubernetes", dir, "*.yaml"))
	if err != nil || len(files) != len(all.Resources)+1 {
		t.Errorf("%s: kustomization.yaml lists %v, there are %v (%v)", dir, all.Resources, files, err)
	}
}

// TestKustomize has kubectl build the manifests.
func TestKustomize(t *testing.T) {
	kubectl := needs(t, "kubectl")
	for dir, kinds := range map[string][]string{
		".":          {"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"},
		"honed":      {"StatefulSet", "Service", "NetworkPolicy"},
		"monitoring": {"PodMonitor", "PrometheusRule", "AlertmanagerConfig"},
	} {
		out := run(t, deployed(t, "kubernetes", dir), kubectl, "kustomize", ".")
		for _, kind := range kinds {
			if !strings.Contains(out, "kind: "+kind+"\n") {
				t.Errorf("kubectl kustomize makes no %s in %s", kind, dir)
			}
		}
	}
}

// TestMonitors compares the PodMonitors with the pods, and with honed's paths.
func TestMonitors(t *testing.T) {
	for file, manifest := range map[string]string{"podmonitor.yaml": "deployment.yaml", "podmonitor-honed.yaml": "honed/statefulset.yaml"} {
		var monitor struct {
			APIVersion string `yaml:"apiVersion"`
			Kind       string
			Metadata   meta
			Spec       struct {
				Selector  labels
				Endpoints []struct {
					Port, Path, Interval string
					Authorization        struct{ Credentials struct{ Name, Key string } }
					Relabelings          []struct {
						TargetLabel string `yaml:"targetLabel"`
						Replacement string
					}
				} `yaml:"podMetricsEndpoints"`
			}
		}
		decode(t, &monitor, "kubernetes", "monitoring", file)
		d, c := readDeployment(t, manifest)
		if name := d.Spec.Template.Metadata.Labels["app.kubernetes.io/name"]; monitor.Spec.Selector.MatchLabels["app.kubernetes.io/name"] != name {
			t.Errorf("%s chooses %v, pods are %s", file, monitor.Spec.Selector, name)
		}
		for _, e := range monitor.Spec.Endpoints {
			if !slices.ContainsFunc(c.Ports, func(p port) bool { return p.Name == e.Port }) {
				t.Errorf("%s scrapes the port %s of %v", file, e.Port, c.Ports)
			}
			label := ""
			if len(e.Relabelings) == 1 {
				label = e.Relabelings[0].TargetLabel + "=" + e.Relabelings[0].Replacement
			}
			switch e.Path {
			case "/metrics":
				if label != "software=hone" {
					t.Errorf("%s: HoneDown would not fire before the first answer", file)
				}
			case "/gateway/metrics":
				if label != "endpoint=gateway" || e.Authorization.Credentials.Name != "honed-admin" {
					t.Errorf("%s: %s shares its series up with another endpoint (%s), or lacks the token %+v", file, e.Path, label, e.Authorization)
				}
			default:
				t.Errorf("%s scrapes %s, which nobody serves", file, e.Path)
			}
		}
	}
}

// TestReceiversAgree compares the alert routes on Kubernetes with those elsewhere.
func TestReceiversAgree(t *testing.T) {
	var plain struct {
		Route     route
		Inhibit   []any `yaml:"inhibit_rules"`
		Receivers []struct{ Name string }
	}
	decode(t, &plain, "alertmanager", "alertmanager.yml")
	var object struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   meta
		Spec       struct {
			Route     operatorRoute
			Inhibit   []any `yaml:"inhibitRules"`
			Receivers []struct{ Name string }
		}
	}
	decode(t, &object, "kubernetes", "monitoring", "alertmanagerconfig.yaml")
	if !slices.Equal(plain.Receivers, object.Spec.Receivers) || len(plain.Inhibit) != len(object.Spec.Inhibit) {
		t.Errorf("receivers %v and %v", plain.Receivers, object.Spec.Receivers)
	}
	for p, o := &plain.Route, &object.Spec.Route; ; p, o = &p.Routes[0], &o.Routes[0] {
		if p.Receiver != o.Receiver || p.Wait != o.Wait || p.Interval != o.Interval || p.Repeat != o.Repeat || !slices.Equal(p.By, o.By) || len(p.Routes) != len(o.Routes) {
			t.Errorf("routes %+v and %+v", p, o)
		}
		if len(p.Routes) != 1 || len(o.Routes) != 1 {
			return
		}
	}
}

// route is a route of Alertmanager.
type route struct {
	Receiver string
	By       []string `yaml:"group_by"`
	Wait     string   `yaml:"group_wait"`
	Interval string   `yaml:"group_interval"`
	Repeat   string   `yaml:"repeat_interval"`
	Matchers []string
	Routes   []route
}

// operatorRoute is the same in the Prometheus Operator's format.
type operatorRoute struct {
	Receiver string
	By       []string `yaml:"groupBy"`
	Wait     string   `yaml:"groupWait"`
	Interval string   `yaml:"groupInterval"`
	Repeat   string   `yaml:"repeatInterval"`
	Matchers []struct{ Name, Value string }
	Routes   []operatorRoute
}
