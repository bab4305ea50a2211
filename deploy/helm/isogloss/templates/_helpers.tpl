{{- define "isogloss.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "isogloss.selector" -}}
app.kubernetes.io/name: isogloss
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "isogloss.labels" -}}
{{ include "isogloss.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "isogloss.metadata" -}}
name: {{ include "isogloss.name" . }}
namespace: {{ .Release.Namespace }}
labels:
  {{- include "isogloss.labels" . | nindent 2 }}
{{- end }}

{{- define "isogloss.image" -}}
{{- if .Values.image.digest }}{{ .Values.image.repository }}@{{ .Values.image.digest }}{{ else }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The name of the ConfigMap, or nothing for a gateway without a file. */}}
{{- define "isogloss.configMap" -}}
{{- if .Values.existingConfigMap }}{{ .Values.existingConfigMap }}{{ else if .Values.config }}{{ include "isogloss.name" . }}{{ end }}
{{- end }}
