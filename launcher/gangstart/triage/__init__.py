"""Why a job died: its traces become events, the events causes, the causes a verdict."""
