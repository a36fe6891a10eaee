# The car's side of openpilot's log format; see log.capnp.
@0x8e2af1e708af8b8d;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("sparkpilot::cereal");

# What openpilot's state machine decides by, until early 2025; since then OnroadEvent of log.capnp.
struct CarEvent @0x9b1657f34caf3ad3 {
  name @0 :EventName; enable @1 :Bool; noEntry @2 :Bool; warning @3 :Bool; userDisable @4 :Bool; softDisable @5 :Bool;
  immediateDisable @6 :Bool; preEnable @7 :Bool; permanent @8 :Bool; overrideLongitudinal @9 :Bool;
  overrideLateral @10 :Bool;
  enum EventName @0xbaa8c5d505f727de {
    canError @0; steerUnavailable @1; brakeUnavailableDEPRECATED @2; gasUnavailableDEPRECATED @3; wrongGear @4;
    doorOpen @5; seatbeltNotLatched @6; espDisabled @7; wrongCarMode @8; steerTempUnavailable @9; reverseGear @10;
    buttonCancel @11; buttonEnable @12; pedalPressed @13; cruiseDisabled @14; radarCanErrorDEPRECATED @15;
    dataNeededDEPRECATED @16; speedTooLow @17; outOfSpace @18; overheat @19; calibrationIncomplete @20;
    calibrationInvalid @21; controlsMismatch @22; pcmEnable @23; pcmDisable @24; noTargetDEPRECATED @25;
    radarFault @26; modelCommIssueDEPRECATED @27; brakeHold @28; parkBrake @29; manualRestart @30;
    lowSpeedLockoutDEPRECATED @31; plannerErrorDEPRECATED @32; ipasOverrideDEPRECATED @33; joystickDebug @34;
    steerTempUnavailableSilent @35; resumeRequired @36; preDriverDistracted @37; promptDriverDistracted @38;
    driverDistracted @39; geofenceDEPRECATED @40; driverMonitorOnDEPRECATED @41; driverMonitorOffDEPRECATED @42;
    preDriverUnresponsive @43; promptDriverUnresponsive @44; driverUnresponsive @45; belowSteerSpeed @46;
    calibrationProgressDEPRECATED @47; lowBattery @48; invalidGiraffeHondaDEPRECATED @49;
    paramsdTemporaryError @50; accFaulted @51; sensorDataInvalid @52; commIssue @53; tooDistracted @54;
    posenetInvalid @55; soundsUnavailableDEPRECATED @56; preLaneChangeLeft @57; preLaneChangeRight @58;
    laneChange @59; invalidGiraffeToyotaDEPRECATED @60; internetConnectivityNeededDEPRECATED @61;
    communityFeatureDisallowedDEPRECATED @62; lowMemory @63; stockAeb @64; ldw @65; carUnrecognized @66;
    radarCommIssueDEPRECATED @67; driverMonitorLowAccDEPRECATED @68; invalidLkasSetting @69; speedTooHigh @70;
    laneChangeBlocked @71; relayMalfunction @72; preEnableStandstill @73; stockFcw @74; startup @75;
    startupNoCar @76; startupNoControl @77; startupMaster @78; fcw @79; steerSaturated @80;
    whitePandaUnsupportedDEPRECATED @81; startupOneplusDEPRECATED @82; commIssueWarningDEPRECATED @83;
    belowEngageSpeed @84; noGps @85; focusRecoverActiveDEPRECATED @86; wrongCruiseMode @87;
    neosUpdateRequiredDEPRECATED @88; modeldLagging @89; deviceFalling @90; fanMalfunction @91;
    cameraMalfunction @92; modelLagWarningDEPRECATED @93; gpsMalfunctionDEPRECATED @94; processNotRunning @95;
    dashcamMode @96; startupFuzzyFingerprintDEPRECATED @97; selfdriveInitializing @98; usbError @99;
    roadCameraErrorDEPRECATED @100; driverCameraErrorDEPRECATED @101; wideRoadCameraErrorDEPRECATED @102;
    locationdTemporaryError @103; startupNoFwDEPRECATED @104; highCpuUsageDEPRECATED @105; cruiseMismatch @106;
    lkasDisabledDEPRECATED @107; gasPressedOverride @108; commIssueAvgFreq @109; cameraFrameRate @110;
    canBusMissing @111; selfdrivedLagging @112; resumeBlocked @113; steerOverride @114; steerTimeLimit @115;
    vehicleSensorsInvalid @116; calibrationRecalibrating @117; locationdPermanentError @118;
    paramsdPermanentError @119; actuatorsApiUnavailable @120; espActive @121; personalityChanged @122; aeb @123;
    longitudinalManeuver @124; startupNoSecOcKey @125;
  }
}

struct CarState {
  errorsDEPRECATED @0 :List(UInt16); vEgo @1 :Float32; wheelSpeeds @2 :WheelSpeeds; gasDEPRECATED @3 :Float32;
  gasPressed @4 :Bool; brakeDEPRECATED @5 :Float32; brakePressed @6 :Bool; steeringAngleDeg @7 :Float32;
  steeringTorque @8 :Float32; steeringPressed @9 :Bool; cruiseState @10 :CruiseState;
  buttonEvents @11 :List(ButtonEvent); canMonoTimesDEPRECATED @12 :List(UInt64); eventsDEPRECATED @13 :List(CarEvent);
  gearShifter @14 :GearShifter; steeringRateDeg @15 :Float32; aEgo @16 :Float32; vEgoRaw @17 :Float32;
  standstill @18 :Bool; brakeLightsDEPRECATED @19 :Bool; leftBlinker @20 :Bool; rightBlinker @21 :Bool;
  yawRate @22 :Float32; genericToggle @23 :Bool; doorOpen @24 :Bool; seatbeltUnlatched @25 :Bool; canValid @26 :Bool;
  steeringTorqueEps @27 :Float32; clutchPressedDEPRECATED @28 :Bool; steeringRateLimitedDEPRECATED @29 :Bool;
  stockAeb @30 :Bool; stockFcw @31 :Bool; espDisabled @32 :Bool; leftBlindspot @33 :Bool; rightBlindspot @34 :Bool;
  steerFaultTemporary @35 :Bool; steerFaultPermanent @36 :Bool; steeringAngleOffsetDeg @37 :Float32;
  brakeHoldActive @38 :Bool; parkingBrake @39 :Bool; canTimeout @40 :Bool; fuelGauge @41 :Float32;
  accFaulted @42 :Bool; charging @43 :Bool; vEgoCluster @44 :Float32; regenBraking @45 :Bool;
  engineRpmDEPRECATED @46 :Float32; carFaultedNonCritical @47 :Bool; canErrorCounter @48 :UInt32;
  canRcvTimeoutDEPRECATED @49 :Bool; cumLagMs @50 :Float32; espActive @51 :Bool; vehicleSensorsInvalid @52 :Bool;
  vCruise @53 :Float32; vCruiseCluster @54 :Float32; invalidLkasSetting @55 :Bool; lowSpeedAlert @56 :Bool;
  buttonEnable @57 :Bool; steeringDisengage @58 :Bool; stockLkas @59 :Bool; blockPcmEnable @60 :Bool;
  carNotReady @61 :Bool;
  struct WheelSpeeds { fl @0 :Float32; fr @1 :Float32; rl @2 :Float32; rr @3 :Float32; }
  struct CruiseState {
    enabled @0 :Bool; speed @1 :Float32; available @2 :Bool; speedOffsetDEPRECATED @3 :Float32; standstill @4 :Bool;
    nonAdaptive @5 :Bool; speedCluster @6 :Float32;
  }
  enum GearShifter {
    unknown @0; park @1; drive @2; neutral @3; reverse @4; sport @5; low @6; brake @7; eco @8; manumatic @9;
  }
  struct ButtonEvent {
    pressed @0 :Bool; type @1 :Type;
    enum Type {
      unknown @0; leftBlinker @1; rightBlinker @2; accelCruise @3; decelCruise @4; cancel @5; lkas @6; altButton2 @7;
      mainCruise @8; setCruise @9; resumeCruise @10; gapAdjustCruise @11;
    }
  }
}

struct RadarData @0x888ad6581cf0aacb {
  errorsDEPRECATED @0 :List(ErrorDEPRECATED); points @1 :List(RadarPoint); canMonoTimesDEPRECATED @2 :List(UInt64);
  errors @3 :Error;
  struct Error { canError @0 :Bool; radarFault @1 :Bool; wrongConfig @2 :Bool; radarUnavailableTemporary @3 :Bool; }
  struct RadarPoint {
    trackId @0 :UInt64; dRel @1 :Float32; yRel @2 :Float32; vRel @3 :Float32; aRelDEPRECATED @4 :Float32;
    yvRelDEPRECATED @5 :Float32; measuredDEPRECATED @6 :Bool;
  }
  enum ErrorDEPRECATED { canError @0; fault @1; wrongConfig @2; }
}

struct CarControl {
  enabled @0 :Bool; gasDEPRECATED @1 :Float32; brakeDEPRECATED @2 :Float32; steeringTorqueDEPRECATED @3 :Float32;
  cruiseControl @4 :CruiseControl; hudControl @5 :HUDControl; actuators @6 :Actuators; activeDEPRECATED @7 :Bool;
  rollDEPRECATED @8 :Float32; pitchDEPRECATED @9 :Float32; actuatorsOutputDEPRECATED @10 :Actuators;
  latActive @11 :Bool; longActive @12 :Bool; orientationNED @13 :List(Float32); angularVelocity @14 :List(Float32);
  leftBlinker @15 :Bool; rightBlinker @16 :Bool; currentCurvature @17 :Float32; driverMonitoringEscalation @18 :Bool;
  struct Actuators {
    gas @0 :Float32; brake @1 :Float32; torque @2 :Float32; steeringAngleDeg @3 :Float32; accel @4 :Float32;
    longControlState @5 :LongControlState; speed @6 :Float32; curvature @7 :Float32; torqueOutputCan @8 :Float32;
    enum LongControlState @0xe40f3a917d908282 { off @0; pid @1; stopping @2; starting @3; }
  }
  struct CruiseControl {
    cancel @0 :Bool; resume @1 :Bool; speedOverrideDEPRECATED @2 :Float32; accelOverrideDEPRECATED @3 :Float32;
    override @4 :Bool;
  }
  struct HUDControl {
    speedVisible @0 :Bool; setSpeed @1 :Float32; lanesVisible @2 :Bool; leadVisible @3 :Bool;
    visualAlert @4 :VisualAlert; audibleAlert @5 :AudibleAlert; rightLaneVisible @6 :Bool; leftLaneVisible @7 :Bool;
    rightLaneDepart @8 :Bool; leftLaneDepart @9 :Bool; leadDistanceBars @10 :Int8;
    enum VisualAlert {
      none @0; fcw @1; steerRequired @2; brakePressed @3; wrongGear @4; seatbeltUnbuckled @5; speedTooHigh @6; ldw @7;
    }
    enum AudibleAlert {
      none @0; engage @1; disengage @2; refuse @3; warningSoft @4; warningImmediate @5; prompt @6; promptRepeat @7;
      promptDistracted @8;
    }
  }
}

struct CarOutput { actuatorsOutput @0 :CarControl.Actuators; }

struct CarParams {
  brand @0 :Text; carFingerprint @1 :Text; enableGasInterceptorDEPRECATED @2 :Bool; pcmCruise @3 :Bool;
  enableCameraDEPRECATED @4 :Bool; enableDsuDEPRECATED @5 :Bool; enableApgsDEPRECATED @6 :Bool;
  minEnableSpeed @7 :Float32; minSteerSpeed @8 :Float32; safetyModelDEPRECATED @9 :SafetyModel;
  safetyParamDEPRECATED @10 :Int16; steerMaxBPDEPRECATED @11 :List(Float32); steerMaxVDEPRECATED @12 :List(Float32);
  gasMaxBPDEPRECATED @13 :List(Float32); gasMaxVDEPRECATED @14 :List(Float32);
  brakeMaxBPDEPRECATED @15 :List(Float32); brakeMaxVDEPRECATED @16 :List(Float32); mass @17 :Float32;
  wheelbase @18 :Float32; centerToFront @19 :Float32; steerRatio @20 :Float32; steerRatioRear @21 :Float32;
  rotationalInertia @22 :Float32; tireStiffnessFront @23 :Float32; tireStiffnessRear @24 :Float32;
  longitudinalTuning @25 :LongitudinalPIDTuning; steerLimitAlertDEPRECATED @28 :Bool;
  vEgoStoppingDEPRECATED @29 :Float32; directAccelControlDEPRECATED @30 :Bool; stoppingControlDEPRECATED @31 :Bool;
  startAccelDEPRECATED @32 :Float32; steerRateCostDEPRECATED @33 :Float32; steerControlType @34 :SteerControlType;
  radarUnavailable @35 :Bool; steerActuatorDelay @36 :Float32; openpilotLongitudinalControl @37 :Bool;
  carVin @38 :Text; isPandaBlackDEPRECATED @39 :Bool; dashcamOnly @41 :Bool;
  safetyModelPassiveDEPRECATED @42 :SafetyModel = silent; transmissionType @43 :TransmissionType;
  carFw @44 :AnyPointer; radarTimeStepDEPRECATED @45 :Float32 = 0.05; communityFeatureDEPRECATED @46 :Bool;
  steerLimitTimer @47 :Float32; lateralParams @48 :LateralParams; fingerprintSource @49 :FingerprintSource;
  networkLocation @50 :NetworkLocation; minSpeedCanDEPRECATED @51 :Float32; stoppingDecelRateDEPRECATED @52 :Float32;
  startingAccelRateDEPRECATED @53 :Float32; maxSteeringAngleDegDEPRECATED @54 :Float32; fuzzyFingerprint @55 :Bool;
  enableBsm @56 :Bool; hasStockCameraDEPRECATED @57 :Bool; longitudinalActuatorDelay @58 :Float32;
  vEgoStartingDEPRECATED @59 :Float32; stopAccel @60 :Float32;
  longitudinalActuatorDelayLowerBoundDEPRECATED @61 :Float32; safetyConfigs @62 :List(SafetyConfig);
  wheelSpeedFactor @63 :Float32; flags @64 :UInt32; alternativeExperience @65 :Int16; notCar @66 :Bool;
  maxLateralAccel @68 :Float32; autoResumeSng @69 :Bool; startingStateDEPRECATED @70 :Bool;
  alphaLongitudinalAvailable @71 :Bool; tireStiffnessFactor @72 :Float32; passive @73 :Bool; radarDelay @74 :Float32;
  secOcRequired @75 :Bool; secOcKeyAvailable @76 :Bool; steerAtStandstill @77 :Bool;
  lateralTuning :union {
    pid @26 :LateralPIDTuning; indiDEPRECATED @27 :AnyPointer; lqrDEPRECATED @40 :AnyPointer;
    torque @67 :LateralTorqueTuning;
  }
  struct SafetyConfig {
    safetyModel @0 :SafetyModel; safetyParamDEPRECATED @1 :Int16; safetyParam2DEPRECATED @2 :UInt32;
    safetyParam @3 :UInt16;
  }
  struct LateralParams { torqueBP @0 :List(Int32); torqueV @1 :List(Int32); }
  struct LateralPIDTuning {
    kpBP @0 :List(Float32); kpV @1 :List(Float32); kiBP @2 :List(Float32); kiV @3 :List(Float32); kf @4 :Float32;
  }
  struct LateralTorqueTuning {
    useSteeringAngleDEPRECATED @0 :Bool; kpDEPRECATED @1 :Float32; kiDEPRECATED @2 :Float32; friction @3 :Float32;
    kfDEPRECATED @4 :Float32; steeringAngleDeadzoneDeg @5 :Float32; latAccelFactor @6 :Float32;
    latAccelOffset @7 :Float32; kdDEPRECATED @8 :Float32;
  }
  struct LongitudinalPIDTuning {
    kpBPDEPRECATED @0 :List(Float32); kpVDEPRECATED @1 :List(Float32); kiBP @2 :List(Float32); kiV @3 :List(Float32);
    deadzoneBPDEPRECATED @4 :List(Float32); deadzoneVDEPRECATED @5 :List(Float32); kfDEPRECATED @6 :Float32;
  }
  enum SafetyModel {
    silent @0; hondaNidec @1; toyota @2; elm327 @3; gm @4; hondaBoschGiraffe @5; ford @6; cadillac @7; hyundai @8;
    chrysler @9; tesla @10; subaru @11; gmPassive @12; mazda @13; nissan @14; volkswagen @15; toyotaIpas @16;
    allOutput @17; gmAscm @18; noOutput @19; hondaBosch @20; volkswagenPq @21; subaruPreglobal @22; hyundaiLegacy @23;
    hyundaiCommunity @24; volkswagenMlb @25; hongqi @26; body @27; hyundaiCanfd @28; volkswagenMqbEvo @29;
    chryslerCusw @30; psa @31; fcaGiorgio @32; rivian @33; volkswagenMeb @34; byd @35; volvo @36; bmw @37; mg @38;
  }
  enum SteerControlType { torque @0; angle @1; curvature @2; }
  enum TransmissionType { unknown @0; automatic @1; manual @2; direct @3; cvt @4; }
  enum FingerprintSource { can @0; fw @1; fixed @2; }
  enum NetworkLocation { fwdCamera @0; gateway @1; }
}
