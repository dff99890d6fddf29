{{- define "tollhouse.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "tollhouse.fullname" -}}
{{- $name := include "tollhouse.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "tollhouse.selector" -}}
app.kubernetes.io/name: {{ include "tollhouse.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "tollhouse.labels" -}}
{{ include "tollhouse.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "tollhouse.image" -}}
{{- $hint := "image.repository is empty: no image is published; build one with deploy/Containerfile and name it here" -}}
{{- $repository := required $hint .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "tollhouse.serviceAccount" -}}
{{- $default := ternary (include "tollhouse.fullname" .) "default" .Values.serviceAccount.create -}}
{{- default $default .Values.serviceAccount.name -}}
{{- end -}}

{{/* Refuses combinations that would start and then serve different things, or nothing. */}}
{{- define "tollhouse.guard" -}}
{{- $config := .Values.config -}}
{{- $listen := default dict $config.listen -}}
{{- $variables := list -}}
{{- range .Values.extraEnv }}{{ $variables = append $variables .name }}{{ end -}}
{{- if or (gt (int .Values.replicaCount) 1) .Values.autoscaling.enabled -}}
{{- $etcd := dig "store" "etcd" "endpoints" list $config -}}
{{- if not (or $etcd (has "TOLLHOUSE_STORE_ETCD_ENDPOINTS" $variables)) -}}
{{- fail "more than one pod needs config.store.etcd.endpoints: each pod would have a store and an Admin key of its own" -}}
{{- end -}}
{{- if not (or .Values.existingSecrets (and (has "TOLLHOUSE_ADMIN_KEY" $variables) (has "TOLLHOUSE_ENCRYPTION_KEYRING" $variables))) -}}
{{- fail "more than one pod needs existingSecrets with TOLLHOUSE_ADMIN_KEY and TOLLHOUSE_ENCRYPTION_KEYRING, common to all pods" -}}
{{- end -}}
{{- $serves := or .Values.registryService.enabled $listen.registry_grpc $listen.registry_http -}}
{{- $store := dig "registry" "store" dict $config -}}
{{- if and $serves (not (or .Values.registryDatabaseInSecret $store.mysql $store.postgresql)) -}}
{{- fail "more than one pod with a registry needs a database: put TOLLHOUSE_REGISTRY_STORE_MYSQL into one of existingSecrets and set registryDatabaseInSecret, or set registryService.enabled=false and config.listen.registry_grpc and registry_http to []" -}}
{{- end -}}
{{- end -}}
{{- if .Values.adminService.enabled -}}
{{- if or (not (dig "admin" "allow" list $config)) (hasPrefix "127." (toString $listen.admin)) -}}
{{- fail "adminService needs config.listen.admin on 0.0.0.0:9180 and config.admin.allow with the networks of its callers" -}}
{{- end -}}
{{- end -}}
{{- end -}}
