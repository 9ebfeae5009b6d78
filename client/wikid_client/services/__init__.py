"""wikid as a service of the user's own manager: systemd, launchd or Task Scheduler. All but `carrying` is pure."""
